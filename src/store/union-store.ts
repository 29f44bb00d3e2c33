/**
 * Owns the look at several stores as if they were one, as an operator's command reads the records of all shards.
 * It must never write, nor show a key twice: what several of them have is shown once, from the first.
 */
import { keyBytes } from './key-order.js';
import {
  assertPageLimit,
  type Store,
  type StoredRecord,
  type StoreEntry,
  type StoreKey,
  type StoreRange,
} from './store.js';

interface Placed {
  readonly bytes: Buffer;
  readonly entry: StoreEntry;
}

export class UnionStore implements Store {
  /** @param stores closed with this one. */
  constructor(private readonly stores: readonly Store[]) {}

  get(key: StoreKey): StoredRecord | null {
    for (const store of this.stores) {
      const record = store.get(key);
      if (record !== null) return record;
    }
    return null;
  }

  page(range: StoreRange): StoreEntry[] {
    assertPageLimit(range.limit);
    const sign = range.reverse === true ? -1 : 1;
    const placed = this.stores
      .flatMap((store) => store.page(range))
      .map((entry): Placed => ({ bytes: keyBytes(entry.key), entry }))
      // Equal keys stay in the order of the stores.
      .sort((one, other) => sign * one.bytes.compare(other.bytes));
    return placed
      .filter(({ bytes }, at) => at === 0 || placed[at - 1]?.bytes.equals(bytes) !== true)
      .slice(0, range.limit)
      .map(({ entry }) => entry);
  }

  async commit(): Promise<boolean> {
    throw new Error('these records are only looked at');
  }

  async flushed(): Promise<void> {}

  async close(): Promise<void> {
    for (const store of this.stores) await store.close();
  }
}
