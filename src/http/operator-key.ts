/**
 * Owns the check of keys that belong to the operator and not to a user.
 * It must never tell through time how much of a guess was right, nor take a user's key for it.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../errors.js';
import { bearerKey } from './auth.js';
import type { Exchange } from './exchange.js';

/** Keys that come and go while the service runs. */
export interface StoredKeys {
  /** Whether there is any. */
  readonly exist: boolean;
  opens(bearer: string): boolean;
}

const NONE: StoredKeys = { exist: false, opens: () => false };

export class OperatorKey implements StoredKeys {
  readonly #digests: readonly Buffer[];
  readonly #stored: StoredKeys;

  /** Any of these keys opens. */
  constructor(keys: readonly (string | null)[], stored: StoredKeys = NONE) {
    this.#digests = keys.filter((key) => key !== null).map(digest);
    this.#stored = stored;
  }

  /** False: there is nothing to open. */
  get exist(): boolean {
    return this.#digests.length > 0 || this.#stored.exist;
  }

  opens(bearer: string): boolean {
    const given = digest(bearer);
    const right = this.#digests.filter((each) => timingSafeEqual(given, each));
    return right.length > 0 || this.#stored.opens(bearer);
  }

  /** @throws ApiError 401. */
  check(exchange: Exchange): void {
    if (!this.opens(bearerKey(exchange.header('authorization')))) throw new ApiError('wrongKey');
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
