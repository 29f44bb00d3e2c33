/**
 * Owns the callers that wait for a change of something, by its id.
 * It must never know what has changed, nor let a caller wait without a bound.
 */
import type { Clock } from '../clock.js';

export class Waiters {
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(readonly clock: Clock) {}

  /** A moment of the monotonic clock. */
  deadline(afterMs: number): number {
    return this.clock.monotonicMs() + afterMs;
  }

  /** @returns false when the deadline passed without a change. @throws the reason of the signal. */
  news(id: string, deadlineMs: number, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    const leftMs = deadlineMs - this.clock.monotonicMs();
    if (leftMs <= 0) return Promise.resolve(false);
    return new Promise((resolve, reject) => {
      const end = (act: () => void) => {
        cancel();
        signal.removeEventListener('abort', onAbort);
        this.#remove(id, onNews);
        act();
      };
      const onNews = () => end(() => resolve(true));
      const onAbort = () => end(() => reject(signal.reason));
      const cancel = this.clock.after(leftMs, () => end(() => resolve(false)));
      signal.addEventListener('abort', onAbort, { once: true });
      this.#add(id, onNews);
    });
  }

  tell(id: string): void {
    for (const onNews of [...(this.#waiting.get(id) ?? [])]) onNews();
  }

  #add(id: string, onNews: () => void): void {
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting.add(onNews));
  }

  #remove(id: string, onNews: () => void): void {
    const waiting = this.#waiting.get(id);
    waiting?.delete(onNews);
    if (waiting?.size === 0) this.#waiting.delete(id);
  }
}
