/**
 * Owns the reading of the headers that carry a key.
 * It must never know any key: whether a value is right is for the key store to say.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

const BEARER = /^bearer(?: +(.*))?$/i;

/** The key of a request: a bearer value, or that of `x-api-key` where there is no Authorization. */
export function requestKey(authorization: string | undefined, apiKey: string | undefined): string {
  if (authorization !== undefined || apiKey === undefined) return bearerKey(authorization);
  return checked(apiKey);
}

/** The bearer value. A missing header or another scheme is one 401, an empty key is the other. */
export function bearerKey(authorization: string | undefined): string {
  const match = BEARER.exec(authorization ?? '');
  if (!match) throw new ApiError('noAuthentication');
  return checked(match[1] ?? '');
}

function checked(key: string): string {
  if (key === '' || Buffer.byteLength(key) > limits.keyBytesMax) throw new ApiError('wrongKey');
  return key;
}
