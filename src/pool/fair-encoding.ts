/**
 * Owns the order in which long texts go to the tokenization pool: few at a time, the owners in turn.
 * It must never hold up a short text, nor let long ones wait without bound.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { TokenizePool } from './encode-batches.js';
import type { TokenizeResult, TokenizeTask } from './messages.js';

export class FairEncoding implements TokenizePool {
  /** Starters by owner; who was served goes to the end. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #running = 0;
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
      this.#next();
    }
  }

  async #turn(owner: string): Promise<void> {
    if (this.#running < limits.encodeLongTasksMax) {
      this.#running += 1;
      return;
    }
    await new Promise<void>((resolve) => {
      const own = this.#waiting.get(owner);
      if (own === undefined) this.#waiting.set(owner, [resolve]);
      else own.push(resolve);
    });
  }

  /** The place is handed on, so that nobody slips in between. */
  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#running -= 1;
      return;
    }
    const [owner, [start, ...rest]] = first;
    this.#waiting.delete(owner);
    if (rest.length > 0) this.#waiting.set(owner, rest);
    start?.();
  }
}

function lengthOf(task: TokenizeTask): number {
  return task.type === 'encode' ? task.texts.reduce((sum, text) => sum + text.length, 0) : 0;
}
