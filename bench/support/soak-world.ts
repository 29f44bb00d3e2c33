/**
 * Owns the caches, tags and files that a soak has made, and which calls use each of them now.
 * It must never give out a thing for removal while another call names it: that call's 404 would not be the service's fault.
 */

export class Shelf {
  readonly #uses = new Map<string, number>();

  get size(): number {
    return this.#uses.size;
  }

  add(id: string): void {
    this.#uses.set(id, 0);
  }

  /** Lends the least recently used thing, until `done` is called with it; null where there is none. */
  use(): string | null {
    const [first] = this.#uses;
    if (first === undefined) return null;
    const [id, uses] = first;
    // To the end, so that all have their turn.
    this.#uses.delete(id);
    this.#uses.set(id, uses + 1);
    return id;
  }

  done(id: string): void {
    const uses = this.#uses.get(id);
    if (uses !== undefined) this.#uses.set(id, uses - 1);
  }

  /** Takes one out, so that no other call names it. */
  take(): string | null {
    for (const [id, uses] of this.#uses) {
      if (uses > 0) continue;
      this.#uses.delete(id);
      return id;
    }
    return null;
  }
}

export interface SoakWorld {
  readonly caches: Shelf;
  readonly tags: Shelf;
  readonly files: Shelf;
  /** Exists for the whole run. */
  readonly cacheId: string;
}
