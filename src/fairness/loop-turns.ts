/**
 * Owns how much work of requests begins in one turn of the event loop: what fits into a bound, the rest in later turns.
 * It must never delay anything while there is time left in this turn, nor run the work itself.
 */
import { type Clock, systemClock } from '../clock.js';
import { limits } from '../limits/index.js';
import { FairQueue } from './fair-queue.js';

export class LoopTurns {
  readonly #waiting = new FairQueue<() => void>();
  #waitingCount = 0;
  /** When the first work of this turn began; null before it. */
  #beganMs: number | null = null;

  constructor(
    readonly clock: Pick<Clock, 'monotonicMs'> = systemClock,
    readonly turnMs: number = limits.loopTurnMs,
  ) {}

  /** @returns null where the work may begin now; else a promise of a later turn, which owners get in rotation. */
  take(owner: string): Promise<void> | null {
    if (this.#waitingCount > 0 || !this.#hasTime()) return this.next(owner);
    return null;
  }

  /** The same, but always in a later turn: for the next part of work that would take too long as a whole. */
  next(owner: string): Promise<void> {
    this.#hasTime();
    return new Promise((resolve) => {
      this.#waiting.push(owner, resolve);
      this.#waitingCount += 1;
    });
  }

  #hasTime(): boolean {
    const nowMs = this.clock.monotonicMs();
    if (this.#beganMs !== null) return nowMs - this.#beganMs < this.turnMs;
    this.#beganMs = nowMs;
    // Runs after all sockets that were ready have been read.
    setImmediate(this.#begin);
    return true;
  }

  readonly #begin = (): void => {
    this.#beganMs = null;
    if (this.#waitingCount > 0) this.#startNext();
  };

  /** What one start has begun, up to where it waits for something, is over before the clock is read for the next. */
  readonly #startNext = (): void => {
    if (!this.#hasTime()) return;
    const start = this.#waiting.shift();
    if (start === undefined) return;
    this.#waitingCount -= 1;
    start();
    if (this.#waitingCount > 0) queueMicrotask(() => process.nextTick(this.#startNext));
  };
}

/** Of this process: it has one event loop. */
export const loopTurns = new LoopTurns();
