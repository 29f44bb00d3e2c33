/**
 * Owns the reading of the Authorization header.
 * It must never know any key: whether a value is right is for the key store to say.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

const BEARER = /^bearer(?: +(.*))?$/i;

/** The bearer value, or the 401 that fits: no or another scheme is not the same fault as a key that cannot be right. */
export function bearerKey(authorization: string | undefined): string {
  const match = BEARER.exec(authorization ?? '');
  if (!match) throw new ApiError('noAuthentication');
  const key = match[1] ?? '';
  if (key === '' || Buffer.byteLength(key) > limits.keyBytesMax) throw new ApiError('wrongKey');
  return key;
}
