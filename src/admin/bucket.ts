/**
 * Owns the look of an operator's command into the bucket: which blobs of the records are there, and whether they are whole.
 * It must never change what is in the bucket: a service may use it meanwhile.
 */
import { wakefulClock } from '../clock.js';
import { storeIdOf } from '../files/blob-owner.js';
import { allFiles, blobsOfFile } from '../files/records.js';
import { limits } from '../limits/index.js';
import { anyRoom } from '../room.js';
import { onlyShard } from '../rules/shards.js';
import type { Config } from '../settings/config.js';
import { s3Text } from '../settings/s3-address.js';
import type { BlobState } from '../store/blobs.js';
import { S3 } from '../store/s3.js';
import { S3Blobs } from '../store/s3-blobs.js';
import type { Store } from '../store/store.js';
import { inParallel } from './in-parallel.js';

export interface BlobFault {
  readonly name: string;
  readonly state: 'missing' | 'damaged';
  /** One line. */
  readonly text: string;
}

export interface BucketLook {
  /** Of the records, and their bytes as the records know them. */
  readonly blobs: number;
  readonly bytes: number;
  /** What is missing or damaged. */
  readonly faults: readonly BlobFault[];
  /** Blobs in the bucket that the records do not name. */
  readonly unknown: number;
}

/** @throws Error where the settings name none. */
export function bucketOf({ blobs: address, blobsKey: key }: Config): S3 {
  if (address === null) throw new Error('--blobs or PREFACE_BLOBS must name the bucket');
  if (key === null) throw new Error('the setting PREFACE_BLOBS_KEY is missing');
  return new S3({ address, key, clock: wakefulClock });
}

/** By which a bucket knows them; null for records that never had one. */
export async function markOf(records: Store): Promise<string | null> {
  return await storeIdOf(records, { make: null });
}

/**
 * @param storeId of the records. @param folder for copies. @param shard whose records name the blobs.
 * @throws Error for the bucket of other records, and for records that have none.
 */
export async function readBucket(
  config: Config,
  storeId: string | null,
  folder = '',
  shard = onlyShard,
): Promise<S3Blobs> {
  if (storeId === null) throw new Error('these records have no files in a bucket');
  const s3 = bucketOf(config);
  return await S3Blobs.reading({ s3, shard, folder, withRoom: anyRoom, storeId });
}

/** @param byChecksum false: it is enough that they are there. @throws ApiError where the store cannot be reached; as `readBucket`. */
export async function lookAtBucket(
  config: Config,
  records: Store,
  { byChecksum }: { readonly byChecksum: boolean },
): Promise<BucketLook> {
  const bucket = await readBucket(config, await markOf(records));
  const left = new Set<string>();
  for await (const name of bucket.names()) left.add(name);
  const faults: BlobFault[] = [];
  let [blobs, bytes] = [0, 0];
  await inParallel(allFiles(records), limits.blobsMovedAtOnce, async (file) => {
    for (const { name, ...known } of blobsOfFile(file)) {
      blobs += 1;
      bytes += known.bytes;
      const isThere = left.delete(name);
      const state = isThere && byChecksum ? await bucket.state(name, known) : stateOf(isThere);
      const fault = bucketFault(config, name, state);
      if (fault !== null) faults.push(fault);
    }
  });
  faults.sort((one, other) => (one.text < other.text ? -1 : 1));
  return { blobs, bytes, faults, unknown: left.size };
}

function stateOf(isThere: boolean): BlobState {
  return isThere ? 'whole' : 'missing';
}

/** @param place of its shard. */
export function bucketFault(
  { blobs: address }: Config,
  name: string,
  state: BlobState,
  place = '',
): BlobFault | null {
  const bucket = address === null ? 'the bucket' : s3Text(address);
  return blobFault(name, `${place}${name} in ${bucket}`, state);
}

/** @param shown the name with its place. @returns null for a whole one. */
export function blobFault(name: string, shown: string, state: BlobState): BlobFault | null {
  if (state === 'whole') return null;
  const what = state === 'missing' ? 'is not there' : 'has other bytes than it was written with';
  return { name, state, text: `the blob ${shown} ${what}` };
}
