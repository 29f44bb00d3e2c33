/**
 * Owns the caches of a shard that nobody named: prefixes that came again and are worth their bytes.
 * It must never take room that a cache with a name may want.
 */
import { decodeWhole } from '../codec.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { PrefixHash } from '../rules/prefix.js';
import { scanWithPauses } from '../store/scan.js';
import type { Store } from '../store/store.js';
import type { PromotedDisk, PromotedSet } from './promoted-disk.js';
import { cacheKeys, idOf } from './records.js';

export interface PromotedParts {
  readonly store: Store;
  /** Which those of all shards share. */
  readonly disk: PromotedDisk;
  readonly remove: (id: string) => Promise<unknown>;
}

export class Promoted implements PromotedSet {
  readonly #parts: PromotedParts;
  readonly #ids = new Map<PrefixHash, string>();

  constructor(parts: PromotedParts) {
    this.#parts = parts;
    parts.disk.add(this);
  }

  get isOn(): boolean {
    return this.#parts.disk.bytesMax > 0;
  }

  get isEmpty(): boolean {
    return this.#ids.size === 0;
  }

  /** Finds those of the last run. */
  async start(): Promise<void> {
    for (const { id, hash } of await this.all()) this.#ids.set(hash, id);
    await this.fit();
  }

  /** Whether there may be one of this prefix. */
  has(hash: PrefixHash): boolean {
    return this.#ids.has(hash);
  }

  added(hash: PrefixHash, id: string): void {
    this.#ids.set(hash, id);
  }

  gone(hash: PrefixHash): void {
    this.#ids.delete(hash);
  }

  async fit(): Promise<void> {
    await this.#parts.disk.fit();
  }

  async remove({ id, hash }: CacheRecord): Promise<void> {
    await this.#parts.remove(id);
    this.gone(hash);
  }

  close(): void {
    this.#parts.disk.delete(this);
  }

  async all(): Promise<CacheRecord[]> {
    const { store } = this.#parts;
    const records: CacheRecord[] = [];
    for await (const entry of scanWithPauses(store, { prefix: cacheKeys.promoted, owner: '' })) {
      const saved = store.get(cacheKeys.record(idOf(entry)));
      const record = saved && decodeWhole<CacheRecord>(saved.value);
      if (record) records.push(record);
    }
    return records;
  }
}
