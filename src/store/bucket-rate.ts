/**
 * Owns what is known of how fast a bucket gives: the wait for the first byte and the bytes a millisecond, as measured last.
 * It must never keep a measure so long that a bucket that was slow once is slow for ever.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';

const NEWEST = 0.5;

export class BucketRate {
  #firstMs = 0;
  #bytesPerMs = 0;
  #measuredMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly clock: Clock) {}

  /** @param firstMs until the first byte. @param ms from there to the last of the bytes. */
  took(firstMs: number, ms: number, bytes: number): void {
    const rate = bytes / Math.max(ms, 0.1);
    const newest = this.#isKnown ? NEWEST : 1;
    this.#firstMs += newest * (firstMs - this.#firstMs);
    this.#bytesPerMs += newest * (rate - this.#bytesPerMs);
    this.#measuredMs = this.clock.monotonicMs();
  }

  /** null: nothing was measured lately. */
  expectedMs(bytes: number): number | null {
    return this.#isKnown ? this.#firstMs + bytes / this.#bytesPerMs : null;
  }

  get #isKnown(): boolean {
    return this.clock.monotonicMs() - this.#measuredMs < limits.bucketRateMs;
  }
}
