/**
 * Owns the opening of the place in the bucket for prefilled prefixes, and what tells whose they are.
 * It must never keep a start waiting, nor begin before it is certain that the bucket is these records'.
 */
import { join } from 'node:path';
import { cacheKeys, idOf } from '../caches/records.js';
import { wakefulClock } from '../clock.js';
import { decodeRecord } from '../codec.js';
import { limits } from '../limits/index.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { PrefixHash } from '../rules/prefix.js';
import { S3 } from '../store/s3.js';
import type { OwnerOf } from '../store/snapshot-objects.js';
import { SnapshotTier } from '../store/snapshot-tier.js';
import type { Store } from '../store/store.js';
import type { Context } from './context.js';

/** null where prefixes stay on the disk. Until it is started it takes and gives nothing. */
export function openSnapshotTier(context: Context): SnapshotTier | null {
  const { config, clock, report, log, opened } = context;
  const { dataDir, blobs: address, blobsKey: key, snapshotBucket: bytesMax } = config;
  if (address === null || key === null || bytesMax === 0) return null;
  const s3 = new S3({ address, key, clock: wakefulClock });
  const folder = join(dataDir, 'engine', 'snapshots');
  const tier = new SnapshotTier({ s3, folder, bytesMax, clock, report, log });
  return opened.add(tier, (part) => part.stop());
}

/** For as long as the records are this node's. */
export function startSnapshotTier(
  { opened }: Context,
  tier: SnapshotTier | null,
  records: Store,
): void {
  if (tier === null) return;
  tier.start(ownerOfSnapshot(records));
  opened.add(tier, (part) => part.stop());
}

/** Prefixes that nobody asked for stay where they were made. */
function ownerOfSnapshot(records: Store): OwnerOf {
  return (name) => {
    const prefix = cacheKeys.snapshot(name as PrefixHash);
    for (const entry of records.page({ prefix, limit: limits.pageLengthDefault })) {
      const found = records.get(cacheKeys.record(idOf(entry)));
      const record = found === null ? null : decodeRecord<CacheRecord>(found.value);
      if (record !== null && record.promoted !== true) return record.owner;
    }
    return null;
  };
}
