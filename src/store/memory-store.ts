/**
 * Owns a store in memory, for tests and for runs without a disk.
 * It must never differ from the store on disk in order, bounds or answers.
 */
import { bytesKey, keyBytes, rangeBounds } from './key-order.js';
import {
  assertCommitSize,
  assertPageLimit,
  type Store,
  type StoreChange,
  type StoredRecord,
  type StoreEntry,
  type StoreKey,
  type StoreRange,
} from './store.js';

/** Key bytes as Latin-1 text: JavaScript compares such texts byte by byte. */
type KeyText = string;

export class MemoryStore implements Store {
  readonly #records = new Map<KeyText, StoredRecord>();
  /** Sorted. */
  readonly #keys: KeyText[] = [];
  #version = 0;
  #closed = false;

  get(key: StoreKey): StoredRecord | null {
    this.#assertOpen();
    const record = this.#records.get(keyBytes(key).toString('latin1'));
    return record ? copy(record) : null;
  }

  page(range: StoreRange): StoreEntry[] {
    this.#assertOpen();
    assertPageLimit(range.limit);
    const { start, startExcluded, end } = rangeBounds(range);
    const first = this.#position(start.toString('latin1'));
    const last = this.#position(end.toString('latin1'));
    const skipped = startExcluded && this.#keys[first] === start.toString('latin1');
    const keys = this.#keys.slice(skipped ? first + 1 : first, last);
    if (range.reverse) keys.reverse();
    return keys.slice(0, range.limit).map((text) => this.#entry(text));
  }

  async commit(changes: readonly StoreChange[]): Promise<boolean> {
    this.#assertOpen();
    assertCommitSize(changes);
    const steps = changes.map((change) => ({
      change,
      text: keyBytes(change.key).toString('latin1'),
    }));
    const holds = steps.every(({ change: { expected }, text }) => {
      const version = this.#records.get(text)?.version ?? null;
      return expected === undefined || expected === version;
    });
    if (!holds) return false;
    this.#version++;
    for (const { change, text } of steps) this.#apply(change, text);
    return true;
  }

  async flushed(): Promise<void> {}

  async close(): Promise<void> {
    this.#closed = true;
  }

  #apply(change: StoreChange, text: KeyText): void {
    const position = this.#position(text);
    const exists = this.#keys[position] === text;
    if (change.type === 'remove') {
      if (exists) this.#keys.splice(position, 1);
      this.#records.delete(text);
      return;
    }
    if (!exists) this.#keys.splice(position, 0, text);
    const record = { version: this.#version, value: change.value };
    this.#records.set(text, copy(record));
  }

  #entry(text: KeyText): StoreEntry {
    const record = this.#records.get(text);
    if (!record) throw new Error('the sorted keys and the records disagree');
    return { key: bytesKey(Buffer.from(text, 'latin1')), record: copy(record) };
  }

  /** The index at which `text` is or would be. */
  #position(text: KeyText): number {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#keys[middle] ?? '') < text) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #assertOpen(): void {
    if (this.#closed) throw new Error('the store is closed');
  }
}

function copy(record: StoredRecord): StoredRecord {
  return { version: record.version, value: Uint8Array.from(record.value) };
}
