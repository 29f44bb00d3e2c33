/**
 * Owns the caches that nobody named: prefixes that came again and are worth their bytes, within a budget of the disk.
 * It must never take room that a cache with a name may want, nor hold more of them than its bounds.
 */
import type { Clock } from '../clock.js';
import { decodeWhole } from '../codec.js';
import { limits } from '../limits/index.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { PrefixHash } from '../rules/prefix.js';
import { leastWorthFirst } from '../rules/promotion.js';
import { scanWithPauses } from '../store/scan.js';
import type { Store } from '../store/store.js';
import { cacheKeys, idOf } from './records.js';

export interface PromotedParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Bytes of disk that all of them together may take; 0 for none at all. */
  readonly bytesMax: number;
  readonly remove: (id: string) => Promise<unknown>;
}

export class Promoted {
  readonly #parts: PromotedParts;
  readonly #ids = new Map<PrefixHash, string>();
  #work: Promise<unknown> = Promise.resolve();

  constructor(parts: PromotedParts) {
    this.#parts = parts;
  }

  get isOn(): boolean {
    return this.#parts.bytesMax > 0;
  }

  get isEmpty(): boolean {
    return this.#ids.size === 0;
  }

  /** Finds those of the last run. */
  async start(): Promise<void> {
    for (const { id, hash } of await this.#all()) this.#ids.set(hash, id);
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

  /** Removes the least worth ones until the others fit, one walk after the other. */
  fit(): Promise<void> {
    const fitted = this.#work.then(() => this.#fit());
    this.#work = fitted.catch(() => {});
    return fitted;
  }

  async #fit(): Promise<void> {
    const { clock, bytesMax, remove } = this.#parts;
    const all = leastWorthFirst(await this.#all(), clock.nowMs());
    let bytes = all.reduce((sum, { snapshot }) => sum + (snapshot?.bytes ?? 0), 0);
    let count = all.length;
    for (const { id, hash, snapshot } of all) {
      if (bytes <= bytesMax && count <= limits.promotedMax) return;
      await remove(id);
      this.gone(hash);
      bytes -= snapshot?.bytes ?? 0;
      count -= 1;
    }
  }

  async #all(): Promise<CacheRecord[]> {
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
