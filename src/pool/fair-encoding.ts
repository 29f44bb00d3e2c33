/**
 * Owns the order in which long texts go to the tokenization pool: a few at a time, and owners take turns.
 * It must never delay a short text, nor let the waiting texts grow without a bound.
 */
import { ApiError } from '../errors.js';
import { FairQueue } from '../fairness/fair-queue.js';
import { limits } from '../limits/index.js';
import type { TokenizePool } from './encode-batches.js';
import type { TokenizeResult, TokenizeTask } from './messages.js';

export class FairEncoding implements TokenizePool {
  /** The functions that start the waiting tasks. */
  readonly #waiting = new FairQueue<() => void>();
  #running = 0;
  /** UTF-16 units of the long texts that run or wait. */
  #length = 0;

  constructor(readonly pool: { run(task: TokenizeTask): Promise<TokenizeResult> }) {}

  async run(task: TokenizeTask, owner = ''): Promise<TokenizeResult> {
    const length = lengthOf(task);
    if (length <= limits.encodeChunkLengthMax) return await this.pool.run(task);
    if (this.#length + length > limits.encodeLongLengthMax) {
      throw new ApiError('overloaded', {}, { retryAfterMs: 1000 });
    }
    this.#length += length;
    await this.#turn(owner);
    try {
      return await this.pool.run(task);
    } finally {
      this.#length -= length;
      this.#running -= 1;
      this.#startNext();
    }
  }

  #turn(owner: string): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#waiting.push(owner, resolve);
      this.#startNext();
    });
  }

  /** The next task counts as running from now on, so no later one can overtake it. */
  #startNext(): void {
    if (this.#running >= limits.encodeLongTasksMax) return;
    const start = this.#waiting.shift();
    if (start === undefined) return;
    this.#running += 1;
    start();
  }
}

function lengthOf(task: TokenizeTask): number {
  return task.type === 'encode' ? task.texts.reduce((sum, text) => sum + text.length, 0) : 0;
}
