/**
 * Owns the number and the work of the items that each owner has under way, and the sums over all owners.
 * It must never bound them, nor keep an entry for an owner with nothing under way.
 */

export interface Load {
  readonly count: number;
  /** In a unit of the caller; 0 where only the number matters. */
  readonly work: number;
}

const NOTHING: Load = { count: 0, work: 0 };

export class OwnerLoad {
  readonly #owners = new Map<string, Load>();
  #total = NOTHING;

  get total(): Load {
    return this.#total;
  }

  /** Owners with something under way. */
  get ownerCount(): number {
    return this.#owners.size;
  }

  owners(): IterableIterator<[owner: string, load: Load]> {
    return this.#owners.entries();
  }

  of(owner: string): Load {
    return this.#owners.get(owner) ?? NOTHING;
  }

  add(owner: string, work = 0): void {
    this.#change(owner, 1, work);
  }

  /** Reverts one `add` of the same owner and work. */
  remove(owner: string, work = 0): void {
    this.#change(owner, -1, -work);
  }

  #change(owner: string, count: number, work: number): void {
    this.#total = sum(this.#total, count, work);
    const own = sum(this.of(owner), count, work);
    if (own.count === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, own);
  }
}

function sum(load: Load, count: number, work: number): Load {
  return { count: load.count + count, work: load.work + work };
}
