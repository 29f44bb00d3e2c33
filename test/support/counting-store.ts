/**
 * Owns a store in memory that counts the records it hands out.
 * It must never answer anything else than the store it is.
 */
import { MemoryStore } from '../../src/store/memory-store.js';
import type { StoredRecord, StoreEntry, StoreKey, StoreRange } from '../../src/store/store.js';

export class CountingStore extends MemoryStore {
  reads = 0;

  override get(key: StoreKey): StoredRecord | null {
    this.reads += 1;
    return super.get(key);
  }

  override page(range: StoreRange): StoreEntry[] {
    const entries = super.page(range);
    this.reads += entries.length;
    return entries;
  }
}
