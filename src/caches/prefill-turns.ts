/**
 * Owns whose prefill is next: a few at a time, the owners in turn, and never all places for one while others wait.
 * It must never know what a prefill is of, nor keep one waiting that was told to stop.
 */
import { limits } from '../limits/index.js';

interface Waiting {
  readonly start: () => void;
}

export class PrefillTurns {
  /** By owner; who was served goes to the end. */
  readonly #waiting = new Map<string, Set<Waiting>>();
  /** Places taken by owner; none is zero. */
  readonly #running = new Map<string, number>();
  #total = 0;

  /** @throws the signal's reason, when it comes before the turn. */
  async run<Result>(
    owner: string,
    signal: AbortSignal,
    task: () => Promise<Result>,
  ): Promise<Result> {
    await this.#turn(owner, signal);
    try {
      return await task();
    } finally {
      this.#leave(owner);
      this.#startNext();
    }
  }

  async #turn(owner: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const stop = () => {
        this.#drop(owner, place);
        reject(signal.reason);
      };
      const start = () => {
        signal.removeEventListener('abort', stop);
        resolve();
      };
      const place = { start };
      signal.addEventListener('abort', stop, { once: true });
      const own = this.#waiting.get(owner);
      if (own) own.add(place);
      else this.#waiting.set(owner, new Set([place]));
      this.#startNext();
    });
  }

  #startNext(): void {
    for (let owner = this.#nextOwner(); owner !== null; owner = this.#nextOwner()) {
      const own = this.#waiting.get(owner) ?? new Set();
      const [place] = own;
      if (!place) return;
      this.#drop(owner, place);
      if (own.size > 0) {
        this.#waiting.delete(owner);
        this.#waiting.set(owner, own);
      }
      // The place is taken here, so that nobody slips in before the task begins.
      this.#total += 1;
      this.#running.set(owner, this.#runningOf(owner) + 1);
      place.start();
    }
  }

  #nextOwner(): string | null {
    const max = limits.prefillsRunningMax;
    const owners = [...this.#waiting.keys()];
    if (this.#total < max) {
      return owners.find((owner) => this.#runningOf(owner) < max - 1) ?? owners[0] ?? null;
    }
    // Who came alone may have them all, and may hang in them: that must not be everybody's end.
    const hogged = this.#total === max && this.#running.size === 1;
    return hogged ? (owners.find((owner) => this.#runningOf(owner) === 0) ?? null) : null;
  }

  #runningOf(owner: string): number {
    return this.#running.get(owner) ?? 0;
  }

  #leave(owner: string): void {
    this.#total -= 1;
    const left = this.#runningOf(owner) - 1;
    if (left > 0) this.#running.set(owner, left);
    else this.#running.delete(owner);
  }

  #drop(owner: string, place: Waiting): void {
    const own = this.#waiting.get(owner);
    own?.delete(place);
    if (own?.size === 0) this.#waiting.delete(owner);
  }
}
