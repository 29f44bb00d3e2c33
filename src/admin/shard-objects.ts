/**
 * Owns the move of objects in a bucket from the places of some shards to those of others, while no service has the records.
 * It must never remove an object of the shards that the records lie in.
 *
 * The server makes the copies, so no byte comes here: what is compared is presence and size.
 */
import { decodeWhole } from '../codec.js';
import { blobsOfFile, readBlobs, sourceBlob } from '../files/records.js';
import { limits } from '../limits/index.js';
import type { FileRecord } from '../rules/file-state.js';
import { allShards, placeOf, type Shard, shardOf } from '../rules/shards.js';
import { isBlob } from '../store/blobs.js';
import type { S3 } from '../store/s3.js';
import { scan } from '../store/scan.js';
import { SNAPSHOTS, snapshotOf } from '../store/snapshot-objects.js';
import type { Store } from '../store/store.js';
import { inParallel } from './in-parallel.js';
import type { ShardPlaces } from './shard-places.js';

export interface ObjectsNote {
  readonly copied: number;
  /** One line each: blobs that were lost or damaged before. */
  readonly faults: readonly string[];
}

interface Move {
  readonly from: string;
  readonly to: string;
  /** As known; null for an object that need not be there. */
  readonly bytes: number | null;
}

/** A store copies no larger object in one request. Only a prefix can be larger, which is then prefilled again. */
const COPY_BYTES_MAX = 5 * 1_024 ** 3;

/** @throws Error where a copy is not what it was made of. */
export async function copyObjects(
  s3: S3,
  records: Store,
  places: ShardPlaces,
  [from, to]: readonly [number, number],
): Promise<ObjectsNote> {
  const faults: string[] = [];
  let copied = 0;
  await inParallel(
    moves(s3, records, places, [from, to]),
    limits.blobsMovedAtOnce,
    async (move) => {
      const fault = (await s3.copy(move.from, move.to)) ? await compared(s3, move) : MISSING;
      if (fault !== MISSING) copied += 1;
      if (fault !== null && move.bytes !== null) faults.push(`the object ${move.from} ${fault}`);
    },
  );
  return { copied, faults: faults.sort() };
}

const MISSING = 'is not there';

async function compared(s3: S3, { from, to, bytes }: Move): Promise<string | null> {
  const there = await s3.bytesOf(to);
  if (there !== null && there === bytes) return null;
  if (there === null || there !== (await s3.bytesOf(from)))
    throw new Error(`the copy of the object ${from} is not whole: run this again`);
  return 'has not as many bytes as were written';
}

async function* moves(
  s3: S3,
  records: Store,
  places: ShardPlaces,
  [from, to]: readonly [number, number],
): AsyncGenerator<Move> {
  const moved = (owner: string, name: string, bytes: number | null): Move => ({
    from: placeOf(shardAt(owner, from)) + name,
    to: placeOf(shardAt(owner, to)) + name,
    bytes,
  });
  for (const { key, record } of scan(records, { prefix: ['file'] })) {
    const id = String(key[1]);
    const owner = places.ownerOf('file', id, record.value);
    const file = decodeWhole<FileRecord>(record.value);
    if (owner === null) continue;
    // Of a damaged record it is not known what it names.
    if (file === null)
      for (const name of [sourceBlob(id), ...readBlobs(id)]) yield moved(owner, name, null);
    else for (const { name, bytes } of blobsOfFile(file)) yield moved(owner, name, bytes);
  }
  for (const shard of allShards(from)) {
    const place = placeOf(shard);
    for await (const { name, bytes } of s3.list(place + SNAPSHOTS)) {
      const object = name.slice(place.length);
      const owner = places.ownerOfSnapshot(snapshotOf(object) ?? '');
      if (owner !== null && bytes <= COPY_BYTES_MAX) yield moved(owner, object, bytes);
    }
  }
}

function shardAt(owner: string, count: number): Shard {
  return { index: shardOf(owner, count), count };
}

const PLACED = /^(?:shard-(\d+)\/)?(.*)$/;

/** Removes what an earlier parting left: all that lies in no place of so many shards. @param check throws where that may not go on. */
export async function removeObjectsElsewhere(
  s3: S3,
  shards: number,
  check: () => void,
): Promise<void> {
  const current = new Set(allShards(shards).map(placeOf));
  await inParallel(s3.names(), limits.blobsMovedAtOnce, async (name) => {
    const [, index, object = ''] = PLACED.exec(name) ?? [];
    const isOwn = isBlob(object) || snapshotOf(object) !== null;
    const place = index === undefined ? '' : `shard-${index}/`;
    if (!isOwn || current.has(place)) return;
    check();
    await s3.remove(name);
  });
}
