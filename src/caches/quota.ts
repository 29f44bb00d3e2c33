/**
 * Owns the bound on number and bytes of one owner's caches: how they are counted, and the refusal beyond it.
 * It must never read a cache's messages to know their size.
 */
import { type Held, Quota } from '../actors/quota.js';
import { decodeWhole } from '../codec.js';
import { type ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { CacheRecord } from '../rules/cache-state.js';
import { scanWithPauses } from '../store/scan.js';
import type { Store, StoreEntry } from '../store/store.js';
import { bytesOf, cacheKeys, idOf } from './records.js';

const MIB = 1024 * 1024;

export const cacheQuotaMax: Held = {
  count: limits.cachesPerOwnerMax,
  bytes: limits.cacheBytesPerOwnerMax,
};

export function cacheQuota(store: Store, max: Held): Quota {
  return new Quota({ held: (owner) => heldBy(store, owner), max: () => max, refusal });
}

async function heldBy(store: Store, owner: string): Promise<Held> {
  const range = { prefix: cacheKeys.owned(owner), pageLength: limits.storePageMax, owner };
  const held = { count: 0, bytes: 0 };
  for await (const entry of scanWithPauses(store, range)) {
    held.count += 1;
    held.bytes += bytesOf(entry) ?? recordBytes(store, entry);
  }
  return held;
}

function recordBytes(store: Store, entry: StoreEntry): number {
  const record = store.get(cacheKeys.record(idOf(entry)));
  return (record && decodeWhole<CacheRecord>(record.value)?.bytes) ?? 0;
}

function refusal(over: 'count' | 'bytes', max: Held): ApiError {
  const bound =
    over === 'count'
      ? `${max.count} caches`
      : `${Math.floor(max.bytes / MIB)} MiB of messages and tools`;
  return invalid(
    `all your caches together must have at most ${bound}: delete some, or let them expire and be removed`,
  );
}
