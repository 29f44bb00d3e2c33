/**
 * Owns a copy of records in memory, where a simulation has to know when a write is there: at once.
 * It must never answer otherwise than the mirror on the disk.
 */
import { bytesKey, keyBytes, rangeBounds } from '../../src/store/key-order.js';
import type { MirrorRow, RecordCopy } from '../../src/store/mirror.js';
import type { StoredRecord, StoreEntry, StoreKey, StoreRange } from '../../src/store/store.js';

interface Row {
  readonly version: number;
  readonly value: Buffer;
}

export class MemoryCopy implements RecordCopy {
  /** By the key's bytes as Latin-1 text. */
  readonly #rows = new Map<string, Row>();
  #closed = false;
  readonly room = { take() {} };

  get(key: StoreKey): StoredRecord | null {
    this.assertOpen();
    return this.#rows.get(keyBytes(key).toString('latin1')) ?? null;
  }

  page(range: StoreRange): StoreEntry[] {
    this.assertOpen();
    const { start, startExcluded, end } = rangeBounds(range);
    const [first, last] = [start.toString('latin1'), end.toString('latin1')];
    const found = [...this.#rows]
      .filter(([key]) => key >= first && key < last && !(startExcluded && key === first))
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, record]) => ({ key: bytesKey(Buffer.from(key, 'latin1')), record }));
    return (range.reverse ? found.reverse() : found).slice(0, range.limit);
  }

  versionOf(key: Buffer): number | null {
    return this.#rows.get(key.toString('latin1'))?.version ?? null;
  }

  async apply(rows: readonly MirrorRow[]): Promise<void> {
    for (const { key, version, value } of rows) {
      const text = key.toString('latin1');
      if (value === null) this.#rows.delete(text);
      else this.#rows.set(text, { version, value });
    }
  }

  async clear(): Promise<void> {
    this.#rows.clear();
  }

  assertOpen(): void {
    if (this.#closed) throw new Error('the store is closed');
  }

  async close(): Promise<void> {
    this.#closed = true;
  }
}
