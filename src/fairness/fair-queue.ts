/**
 * Owns a queue in which owners take turns, so that an owner with a thousand items does not delay one with a single item.
 * It must never read an item, nor bound their number: the bound belongs to the queue's user.
 */

export class FairQueue<Item> {
  /** Owners in the order of their next turn; an owner without items has no entry. */
  readonly #waiting = new Map<string, Item[]>();

  push(owner: string, item: Item): void {
    const items = this.#waiting.get(owner);
    if (items === undefined) this.#waiting.set(owner, [item]);
    else items.push(item);
  }

  /** Takes the first item of the owner whose turn it is. @param mayTake skips owners; they keep their turn. */
  shift(mayTake: (owner: string) => boolean = () => true): Item | undefined {
    for (const [owner, items] of this.#waiting) {
      if (!mayTake(owner)) continue;
      const item = items.shift();
      this.#waiting.delete(owner);
      if (items.length > 0) this.#waiting.set(owner, items);
      return item;
    }
    return undefined;
  }

  /** Whether an owner of these has an item. */
  hasAny(mayTake: (owner: string) => boolean): boolean {
    return [...this.#waiting.keys()].some(mayTake);
  }

  /** Takes the newest item of an owner. */
  takeLast(owner: string): Item | undefined {
    const items = this.#waiting.get(owner);
    const item = items?.pop();
    if (items?.length === 0) this.#waiting.delete(owner);
    return item;
  }

  /** @returns whether the item was in the queue. */
  remove(owner: string, item: Item): boolean {
    const items = this.#waiting.get(owner);
    const at = items?.indexOf(item) ?? -1;
    if (items === undefined || at < 0) return false;
    items.splice(at, 1);
    if (items.length === 0) this.#waiting.delete(owner);
    return true;
  }

  /** Removes and returns all items, in no particular order. */
  drain(): Item[] {
    const items = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    return items;
  }
}
