/**
 * Owns the check of keys that belong to the operator and not to a user.
 * It must never tell through time how much of a guess was right, nor take a user's key for it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../errors.js';
import { bearerKey } from './auth.js';
import type { Exchange } from './exchange.js';

export class OperatorKey {
  readonly #digests: readonly Buffer[];

  /** Any of these keys opens. */
  constructor(...keys: readonly string[]) {
    this.#digests = keys.map(digest);
  }

  /** @throws ApiError 401. */
  check(exchange: Exchange): void {
    const given = digest(bearerKey(exchange.header('authorization')));
    const right = this.#digests.filter((each) => timingSafeEqual(given, each));
    if (right.length === 0) throw new ApiError('wrongKey');
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
