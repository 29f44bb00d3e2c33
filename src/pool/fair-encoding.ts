/**
 * Owns the order in which long texts go to the tokenization pool: a few at a time, and owners take turns.
 * It must never delay a short text, nor let the waiting texts grow without a bound.
 */
import { ApiError } from '../errors.js';
import { FairQueue } from '../fairness/fair-queue.js';
import { OwnerLoad } from '../fairness/owner-load.js';
import { hasShare } from '../fairness/shares.js';
import { limits } from '../limits/index.js';
import type { TokenizePool } from './encode-batches.js';
import type { TokenizeResult, TokenizeTask } from './messages.js';
import { memoryOf } from './packed-text.js';

export class FairEncoding implements TokenizePool {
  /** The functions that start the waiting tasks. */
  readonly #waiting = new FairQueue<() => void>();
  /** Long texts that are being encoded, and their UTF-16 units. */
  readonly #running = new OwnerLoad();
  /** UTF-16 units of the long texts that run or wait. */
  readonly #held = new OwnerLoad();

  constructor(
    /** The memory of packed texts is moved to the thread, and is not there for a second attempt. */
    readonly pool: { run(task: TokenizeTask, moved?: ArrayBuffer[]): Promise<TokenizeResult> },
  ) {}

  async run(task: TokenizeTask, owner = ''): Promise<TokenizeResult> {
    const length = lengthOf(task);
    if (length <= limits.encodeChunkLengthMax) return await this.pool.run(task);
    if (!this.#hasRoom(owner, length)) {
      throw new ApiError('overloaded', {}, { retryAfterMs: 1000 });
    }
    this.#held.add(owner, length);
    await this.#turn(owner, length);
    try {
      return await this.pool.run(task, task.type === 'encode' ? memoryOf(task.texts) : []);
    } finally {
      this.#held.remove(owner, length);
      this.#running.remove(owner, length);
      this.#startNext();
    }
  }

  /** An owner's first text may be as long as what is left. */
  #hasRoom(owner: string, length: number): boolean {
    const { encodeLongLengthMax: max } = limits;
    const total = this.#held.total.work;
    const own = this.#held.of(owner).work;
    return own === 0 ? total + length <= max : hasShare({ own, total }, length, max);
  }

  #turn(owner: string, length: number): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#waiting.push(owner, () => {
        // It counts as running from now on, so no later one can overtake it.
        this.#running.add(owner, length);
        resolve();
      });
      this.#startNext();
    });
  }

  #startNext(): void {
    if (this.#running.total.count >= limits.encodeLongTasksMax) return;
    // What an owner has in the threads is bounded, since no account counts their memory.
    this.#waiting.shift((owner) => this.#running.of(owner).work < limits.encodeOwnerLengthMax)?.();
  }
}

function lengthOf(task: TokenizeTask): number {
  return task.type === 'encode' ? task.texts.reduce((sum, text) => sum + text.length, 0) : 0;
}
