/**
 * Owns the order in which pairs are merged: a binary heap of (rank, place), lowest first.
 * It must never keep objects: one number holds an entry, and the whole heap is one array.
 */

export class PairHeap {
  #entries: Float64Array;
  #size = 0;
  /** The entry that `pop` took out. */
  rank = 0;
  at = 0;

  /** Places are below `places`. */
  constructor(readonly places: number) {
    this.#entries = new Float64Array(places + 16);
  }

  push(rank: number, at: number): void {
    if (this.#size === this.#entries.length) this.#grow();
    const entry = rank * this.places + at;
    const entries = this.#entries;
    let slot = this.#size++;
    while (slot > 0) {
      const parent = (slot - 1) >> 1;
      const above = entries[parent] ?? 0;
      if (above <= entry) break;
      entries[slot] = above;
      slot = parent;
    }
    entries[slot] = entry;
  }

  pop(): boolean {
    if (this.#size === 0) return false;
    const top = this.#entries[0] ?? 0;
    this.rank = Math.floor(top / this.places);
    this.at = top - this.rank * this.places;
    this.#size -= 1;
    this.#sink(this.#entries[this.#size] ?? 0);
    return true;
  }

  #sink(entry: number): void {
    const entries = this.#entries;
    const size = this.#size;
    let slot = 0;
    for (;;) {
      let child = 2 * slot + 1;
      if (child >= size) break;
      if (child + 1 < size && (entries[child + 1] ?? 0) < (entries[child] ?? 0)) child += 1;
      const below = entries[child] ?? 0;
      if (below >= entry) break;
      entries[slot] = below;
      slot = child;
    }
    entries[slot] = entry;
  }

  #grow(): void {
    const larger = new Float64Array(this.#entries.length * 2);
    larger.set(this.#entries);
    this.#entries = larger;
  }
}
