/**
 * Owns what a soak has made on the service and may ask about: caches, tags and files, each with who is using it now.
 * It must never give out for removal what another call under way still names: its 404 would be no fault of the service.
 */

export class Shelf {
  readonly #uses = new Map<string, number>();

  get size(): number {
    return this.#uses.size;
  }

  add(id: string): void {
    this.#uses.set(id, 0);
  }

  /** The one that was longest left alone, until `done` is called with it; null where there is none. */
  use(): string | null {
    const [first] = this.#uses;
    if (first === undefined) return null;
    const [id, uses] = first;
    // Behind the others, so that all have their turn.
    this.#uses.delete(id);
    this.#uses.set(id, uses + 1);
    return id;
  }

  done(id: string): void {
    const uses = this.#uses.get(id);
    if (uses !== undefined) this.#uses.set(id, uses - 1);
  }

  /** Out of the shelf: nobody else will name it. */
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
  /** Stays for the whole run. */
  readonly cacheId: string;
}
