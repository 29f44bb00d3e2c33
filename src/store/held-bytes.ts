/**
 * Owns a bound on bytes that are held at the same time.
 * It must never let anybody wait: who finds no room is refused.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

export class HeldBytes {
  #bytes = 0;

  constructor(readonly bytesMax: number) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** @returns what gives them back, once. @throws ApiError `overloaded`. */
  take(bytes: number): () => void {
    if (this.#bytes + bytes > this.bytesMax) {
      throw new ApiError('overloaded', {}, { retryAfterMs: limits.uploadRetryMs });
    }
    this.#bytes += bytes;
    let held = bytes;
    return () => {
      this.#bytes -= held;
      held = 0;
    };
  }
}
