/**
 * Owns a line in which owners take turns, so that one who brings a thousand holds up nobody who brings one.
 * It must never know what waits in it; how much may wait is the bound of who fills it.
 */

export class FairQueue<Item> {
  /** In the order of their next turn; an owner without items is not there. */
  readonly #waiting = new Map<string, Item[]>();

  push(owner: string, item: Item): void {
    const items = this.#waiting.get(owner);
    if (items === undefined) this.#waiting.set(owner, [item]);
    else items.push(item);
  }

  /** The first item of the owner whose turn it is. */
  shift(): Item | undefined {
    for (const [owner, items] of this.#waiting) {
      const item = items.shift();
      this.#waiting.delete(owner);
      if (items.length > 0) this.#waiting.set(owner, items);
      return item;
    }
    return undefined;
  }

  /** @returns whether it waited here. */
  remove(owner: string, item: Item): boolean {
    const items = this.#waiting.get(owner);
    const at = items?.indexOf(item) ?? -1;
    if (items === undefined || at < 0) return false;
    items.splice(at, 1);
    if (items.length === 0) this.#waiting.delete(owner);
    return true;
  }

  /** All that waited, in no order that matters. */
  drain(): Item[] {
    const items = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    return items;
  }
}
