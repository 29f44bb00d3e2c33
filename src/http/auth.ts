/**
 * Owns the reading of the Authorization header.
 * It must never know any key: whether a value is right is for the key store to say.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

const BEARER = /^bearer(?: +(.*))?$/i;

/** The bearer value. A missing header or another scheme is one 401, an empty key is the other. */
export function bearerKey(authorization: string | undefined): string {
  const match = BEARER.exec(authorization ?? '');
  if (!match) throw new ApiError('noAuthentication');
  const key = match[1] ?? '';
  if (key === '' || Buffer.byteLength(key) > limits.keyBytesMax) throw new ApiError('wrongKey');
  return key;
}
