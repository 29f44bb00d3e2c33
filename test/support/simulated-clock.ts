/**
 * Owns time in tests: it stands still until a test advances it.
 * It must never run a timer out of order, nor at another time than its own.
 */
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../src/clock.js';

interface Timer {
  readonly dueMs: number;
  readonly task: () => void;
}

export class SimulatedClock implements Clock {
  #elapsedMs = 0;
  #wallMs: number;
  readonly #timers = new Set<Timer>();

  /** A fixed date, so that no test depends on the current one. */
  constructor(startMs = Date.UTC(2030, 0, 1)) {
    this.#wallMs = startMs;
  }

  nowMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  after(delayMs: number, task: () => void): () => void {
    const timer = { dueMs: this.#elapsedMs + Math.max(0, delayMs), task };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  get timerCount(): number {
    return this.#timers.size;
  }

  /** Between two timers, all work that waits for no timer gets its turn. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#elapsedMs + ms;
    await settled();
    for (let timer = this.#next(endMs); timer; timer = this.#next(endMs)) {
      this.#moveTo(timer.dueMs);
      this.#timers.delete(timer);
      timer.task();
      await settled();
    }
    this.#moveTo(endMs);
  }

  /** Sets the wall clock forward or back; durations are not affected. */
  jump(ms: number): void {
    this.#wallMs += ms;
  }

  #moveTo(elapsedMs: number): void {
    this.#wallMs += elapsedMs - this.#elapsedMs;
    this.#elapsedMs = elapsedMs;
  }

  #next(endMs: number): Timer | null {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      if (timer.dueMs <= endMs && (!next || timer.dueMs < next.dueMs)) next = timer;
    }
    return next;
  }
}

/** A few turns of the event loop: enough for all work that waits neither for a timer nor for another thread. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await setImmediate();
}
