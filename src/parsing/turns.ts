/**
 * Owns who may use a parsing thread next: owners in turn, and one task of an owner at a time.
 * It must never let the tasks of one owner hold all threads.
 */

export class OwnerTurns {
  /** Starters by owner, in the order of their next turn. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #running = new Set<string>();

  constructor(readonly places: number) {}

  async run<Value>(owner: string, task: () => Promise<Value>): Promise<Value> {
    await this.#turn(owner);
    try {
      return await task();
    } finally {
      this.#running.delete(owner);
      this.#toTheBack(owner);
      this.#next();
    }
  }

  #turn(owner: string): Promise<void> | null {
    if (this.#running.size < this.places && !this.#running.has(owner)) {
      this.#running.add(owner);
      return null;
    }
    return new Promise((resolve) => {
      const own = this.#waiting.get(owner);
      if (own === undefined) this.#waiting.set(owner, [resolve]);
      else own.push(resolve);
    });
  }

  /** An owner that had its turn waits behind all others, also for what it asked before they came. */
  #toTheBack(owner: string): void {
    const own = this.#waiting.get(owner);
    if (own === undefined) return;
    this.#waiting.delete(owner);
    this.#waiting.set(owner, own);
  }

  /** The place is handed on, so that nobody slips in between. */
  #next(): void {
    for (const [owner, [start, ...rest]] of this.#waiting) {
      if (this.#running.has(owner)) continue;
      this.#waiting.delete(owner);
      if (rest.length > 0) this.#waiting.set(owner, rest);
      this.#running.add(owner);
      start?.();
      return;
    }
  }
}
