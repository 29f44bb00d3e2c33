/**
 * Owns whether a bucket answers, as those who asked it saw last. It is told once when it does not, and once when it does again.
 * It must never call a fault of this machine one of the bucket.
 */
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { TakeReport } from '../telemetry/report.js';

export interface BucketHealthParts {
  readonly clock: Clock;
  readonly report: TakeReport;
  readonly log: (line: string) => void;
}

export class BucketHealth {
  readonly #parts: BucketHealthParts;
  #downUntilMs = Number.NEGATIVE_INFINITY;
  #isDown = false;

  constructor(parts: BucketHealthParts) {
    this.#parts = parts;
  }

  /** Since it did not answer. */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** It did not answer, and is left alone for a while. */
  get isResting(): boolean {
    return this.#parts.clock.monotonicMs() < this.#downUntilMs;
  }

  failed(cause: unknown): void {
    const { clock, log, report } = this.#parts;
    if (!(cause instanceof ApiError && cause.row === 'unavailable')) {
      report({ type: 'fault', place: 'snapshot', fault: cause });
      return;
    }
    this.#downUntilMs = clock.monotonicMs() + limits.bucketRetryMs;
    if (this.#isDown) return;
    this.#isDown = true;
    log(`prefixes in the bucket: none are sent or fetched until it answers (${cause.message})`);
  }

  answered(): void {
    this.#downUntilMs = Number.NEGATIVE_INFINITY;
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#parts.log('prefixes in the bucket: it answers again');
  }
}
