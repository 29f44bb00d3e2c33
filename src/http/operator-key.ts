/**
 * Owns the check of a key that belongs to the operator and not to a user.
 * It must never tell through time how much of a guess was right, nor take a user's key for it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../errors.js';
import { bearerKey } from './auth.js';
import type { Exchange } from './exchange.js';

export class OperatorKey {
  readonly #digest: Buffer;

  constructor(key: string) {
    this.#digest = digest(key);
  }

  /** @throws ApiError 401. */
  check(exchange: Exchange): void {
    const given = digest(bearerKey(exchange.header('authorization')));
    if (!timingSafeEqual(given, this.#digest)) throw new ApiError('wrongKey');
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
