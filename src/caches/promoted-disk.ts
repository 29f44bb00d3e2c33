/**
 * Owns the room on the disk for prefixes that nobody named, of all shards that this process serves.
 * It must never hold more of them than its bounds, nor let a shard that is closed meanwhile keep the others from fitting.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { CacheRecord } from '../rules/cache-state.js';
import { givingWay } from '../rules/promotion.js';

/** Those of one shard. */
export interface PromotedSet {
  all(): Promise<CacheRecord[]>;
  remove(record: CacheRecord): Promise<void>;
}

export class PromotedDisk {
  readonly #sets = new Set<PromotedSet>();
  #work: Promise<unknown> = Promise.resolve();

  constructor(
    readonly clock: Clock,
    /** That all of them together may take; 0 for none at all. */
    readonly bytesMax: number,
  ) {}

  add(set: PromotedSet): void {
    this.#sets.add(set);
  }

  /** Of a shard that is closed: from now on another process counts them. */
  delete(set: PromotedSet): void {
    this.#sets.delete(set);
  }

  /** Removes those that give way until the others fit, one walk after the other. */
  fit(): Promise<void> {
    const fitted = this.#work.then(() => this.#fit());
    this.#work = fitted.catch(() => {});
    return fitted;
  }

  async #fit(): Promise<void> {
    const sets = new Map<CacheRecord, PromotedSet>();
    for (const set of this.#sets) {
      const records = await this.#unlessClosed(set, () => set.all());
      for (const record of records ?? []) sets.set(record, set);
    }
    const room = { bytes: this.bytesMax, count: limits.promotedMax };
    for (const record of givingWay([...sets.keys()], room, this.clock.nowMs())) {
      const set = sets.get(record);
      if (set !== undefined) await this.#unlessClosed(set, () => set.remove(record));
    }
  }

  /** @returns null where the shard was closed. */
  async #unlessClosed<Result>(
    set: PromotedSet,
    act: () => Promise<Result>,
  ): Promise<Result | null> {
    if (!this.#sets.has(set)) return null;
    try {
      return await act();
    } catch (cause) {
      if (this.#sets.has(set)) throw cause;
      return null;
    }
  }
}
