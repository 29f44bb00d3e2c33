/**
 * Owns the walks over caches that nobody asks for: what time has ended, what a crash interrupted, bytes to be freed.
 * It must never decide what becomes of a cache: it only makes its actor look.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { CacheState } from '../rules/cache-state.js';
import type { PrefixHash } from '../rules/prefix.js';
import type { Store, StoreEntry, StoreKey, StoreRange } from '../store/store.js';
import { cacheKeys, dueKey, idOf, put } from './records.js';

export interface CacheSweeperParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly report: (fault: unknown) => void;
  /** How long an expired cache stays. */
  readonly keepMs: number;
  /** @returns the cache as it is now. */
  readonly touch: (id: string) => Promise<CacheState>;
  readonly forget: (hash: PrefixHash) => Promise<void>;
  /** As many prefills wait as may. */
  readonly busy: () => boolean;
}

export class CacheSweeper {
  readonly #parts: CacheSweeperParts;
  #cancel: (() => void) | null = null;
  #stopped = false;
  /** The last pending cache that was taken up, or null once all were. */
  #resumed: StoreKey | null = cacheKeys.pending;
  #forgetDueMs = Number.NEGATIVE_INFINITY;

  constructor(parts: CacheSweeperParts) {
    this.#parts = parts;
  }

  start(): Promise<void> {
    return this.#round();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  async #round(): Promise<void> {
    for (const walk of [() => this.#expire(), () => this.#resume(), () => this.#forget()]) {
      await walk().catch(this.#parts.report);
    }
    if (this.#stopped) return;
    this.#cancel = this.#parts.clock.after(limits.cacheSweepMs, () => void this.#round());
  }

  async #expire(): Promise<void> {
    const before = [...cacheKeys.due, this.#parts.clock.nowMs() + 1];
    await this.#eachPage({ prefix: cacheKeys.due, before }, async (id, { key }) => {
      const state = await this.#parts.touch(id);
      await this.#correct(key, state);
    });
  }

  /** An entry from when caches were kept for another time would be looked at for ever, or never again. */
  async #correct(key: StoreKey, state: CacheState): Promise<void> {
    const { store, keepMs } = this.#parts;
    const entry = store.get(key);
    const right = state === null ? null : dueKey(state, keepMs);
    if (entry === null || (right !== null && String(right) === String(key))) return;
    const removal = { type: 'remove', key, expected: entry.version } as const;
    await store.commit(right === null ? [removal] : [removal, put(right)]);
  }

  /** Once a run, but a bit at a time: each holds its actor until its prefill is done. */
  async #resume(): Promise<void> {
    while (this.#resumed !== null && !this.#parts.busy() && !this.#stopped) {
      const after = this.#resumed;
      const [entry] = this.#parts.store.page({ prefix: cacheKeys.pending, after, limit: 1 });
      this.#resumed = entry?.key ?? null;
      if (entry) await this.#parts.touch(idOf(entry));
    }
  }

  async #forget(): Promise<void> {
    const { clock, forget } = this.#parts;
    if (clock.monotonicMs() < this.#forgetDueMs) return;
    this.#forgetDueMs = clock.monotonicMs() + limits.cacheForgetRetryMs;
    await this.#eachPage({ prefix: cacheKeys.forget }, (hash) => forget(hash as PrefixHash));
  }

  /** What fails is reported and left for the next round, and stops nobody else. */
  async #eachPage(
    range: Omit<StoreRange, 'limit'>,
    act: (last: string, entry: StoreEntry) => Promise<unknown>,
  ): Promise<void> {
    let after: StoreKey | null = null;
    while (!this.#stopped) {
      const bounds = after === null ? {} : { after };
      const limit = limits.pageLengthMax;
      const entries = this.#parts.store.page({ ...range, ...bounds, limit });
      const results = await Promise.allSettled(entries.map((entry) => act(idOf(entry), entry)));
      for (const result of results) {
        if (result.status === 'rejected' && !this.#stopped) this.#parts.report(result.reason);
      }
      const last = entries.at(-1);
      if (last === undefined || entries.length < limit) return;
      after = last.key;
    }
  }
}
