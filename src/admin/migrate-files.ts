/**
 * Owns the move of the bytes of files between a data folder and a bucket, while no service has their records.
 * It must never remove a byte where it copies from, nor let one damaged blob stop the others.
 */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { systemRandom } from '../clock.js';
import { decodeWhole } from '../codec.js';
import { newMark, onDisk, storeIdOf } from '../files/blob-owner.js';
import { blobsOfFile } from '../files/records.js';
import { limits } from '../limits/index.js';
import { anyRoom, type TakeRoom } from '../room.js';
import type { FileRecord } from '../rules/file-state.js';
import { onlyShard } from '../rules/shards.js';
import type { Config } from '../settings/config.js';
import { bring, type NamedBlob, UnreadableBlob, unreadableText } from '../store/blob-copy.js';
import { type Blobs, isBlob } from '../store/blobs.js';
import { DiskRoom } from '../store/disk-room.js';
import { synced } from '../store/durable.js';
import { LmdbStore } from '../store/lmdb-store.js';
import { LocalBlobs } from '../store/local-blobs.js';
import { Reserve } from '../store/reserve.js';
import { S3Blobs } from '../store/s3-blobs.js';
import { scan } from '../store/scan.js';
import type { Store } from '../store/store.js';
import { assertRecordsHere } from '../store/store-folder.js';
import { bucketOf, markOf, readBucket } from './bucket.js';
import { inParallel } from './in-parallel.js';
import { assertOneShard, withShards } from './open-shards.js';
import { withTemporaryFolder } from './temporary-folder.js';

export interface FilesNote {
  readonly copied: number;
  /** There already, and whole. */
  readonly present: number;
  readonly bytes: number;
  /** One line each: what could not be copied. */
  readonly faults: readonly string[];
  /** Where the data folder keeps the bytes from then on; null: as before. */
  readonly left: string | null;
}

const LEFT = '.migrated';

/** From the data folder, which keeps the bytes under another name once all are in the bucket. */
export async function migrateToBucket(config: Config): Promise<FilesNote> {
  const folder = join(config.dataDir, 'files');
  const left = folder + LEFT;
  // A second one would have to write over it.
  if (existsSync(left)) throw new Error(`${left} is of an earlier migration: move it away first`);
  return await withRecords(config, async (records, ofDatabase) => {
    checkRecords(records, folder);
    const s3 = bucketOf(config);
    const isFirst = (await markOf(records)) === null;
    const make = () => ofDatabase ?? newMark(systemRandom);
    const storeId = await storeIdOf(records, { make });
    // Until a service uses the bucket, or all is there.
    if (isFirst) await onDisk.set(records, true);
    if (storeId === null) throw new Error('the records could not be marked as those of the bucket');
    const note = await withTemporaryFolder(config.dataDir, async (own) => {
      const parts = { s3, shard: onlyShard, folder: own, withRoom: anyRoom, storeId };
      const to = await S3Blobs.open(parts);
      return await bringAll(records, LocalBlobs.reading(folder), to);
    });
    if (note.faults.length > 0) return { ...note, left: null };
    // Before the folder goes: a start without the bucket says where the files are, also after a crash between the two.
    await onDisk.set(records, false);
    if (!existsSync(folder)) return { ...note, left: null };
    await rename(folder, left);
    await synced(config.dataDir);
    return { ...note, left };
  });
}

/** Those of another service name none of these files, which would be left behind. @throws Error that says so. */
function checkRecords(records: Store, folder: string): void {
  if (!existsSync(folder) || records.page({ prefix: ['file'], limit: 1 }).length > 0) return;
  const count = readdirSync(folder).filter(isBlob).length;
  if (count === 0) return;
  throw new Error(
    `the records name no file, and ${folder} has ${count}: check that --data-dir and --store (PREFACE_STORE) are those of one service; nothing was copied`,
  );
}

/** Into the data folder. What is in the bucket stays there. */
export async function migrateToDisk(config: Config): Promise<FilesNote> {
  const { dataDir } = config;
  return await withRecords(config, async (records) => {
    const folder = join(dataDir, 'files');
    const room = new DiskRoom(dataDir, Reserve.of(dataDir));
    const withRoom: TakeRoom = (bytes, write) => room.write(bytes, write);
    const to = await LocalBlobs.open(folder, withRoom);
    // What comes is first a file without a name, on the disk that is to hold it: another one may be too small.
    const from = await readBucket(config, await markOf(records), folder);
    const note = await bringAll(records, from, to);
    if (note.faults.length === 0) await onDisk.set(records, true);
    return { ...note, left: null };
  });
}

/** Of no other process meanwhile. @param act gets the id of the database, too; null for a data folder. */
async function withRecords<Result>(
  { dataDir, store: url }: Config,
  act: (records: Store, ofDatabase: string | null) => Promise<Result>,
): Promise<Result> {
  if (url === null) return await using(openFolder(dataDir), (records) => act(records, null));
  // All records come into it, and the system's own place may be small.
  return await withTemporaryFolder(dataDir, async (own) => {
    return await withShards(url, own, async (led) => {
      assertOneShard(led);
      return await act(led.records, led.storeId);
    });
  });
}

async function using<Result>(
  records: Store,
  act: (records: Store) => Promise<Result>,
): Promise<Result> {
  try {
    return await act(records);
  } finally {
    await records.close();
  }
}

function openFolder(folder: string): LmdbStore {
  assertRecordsHere(folder);
  const path = join(folder, 'records.mdb');
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes === 0) throw new Error(`the data folder ${folder} has no records`);
  return LmdbStore.open({ folder });
}

async function bringAll(records: Store, from: Blobs, to: Blobs): Promise<Omit<FilesNote, 'left'>> {
  const faults: string[] = [];
  let [copied, present, bytes] = [0, 0, 0];
  await inParallel(blobsOf(records, faults), limits.blobsMovedAtOnce, async (blob) => {
    const became = await bring(from, to, blob).catch((cause: unknown) => {
      if (cause instanceof UnreadableBlob) return cause;
      throw cause;
    });
    if (became instanceof UnreadableBlob) faults.push(unreadableText(blob.name, became));
    else if (became === 'damaged')
      faults.push(`${blob.name} has other bytes than it was written with`);
    else if (became === 'missing') faults.push(`${blob.name} is not there`);
    else if (became === 'present') present += 1;
    else {
      copied += 1;
      bytes += blob.bytes;
    }
  });
  return { copied, present, bytes, faults: faults.sort() };
}

/** Blobs that no record explains are left: a service removes them at its start. */
function* blobsOf(records: Store, faults: string[]): Generator<NamedBlob> {
  for (const { key, record } of scan(records, { prefix: ['file'] })) {
    const file = decodeWhole<FileRecord>(record.value);
    if (file !== null) yield* blobsOfFile(file);
    else faults.push(`the record ${JSON.stringify(key)} is damaged, so that its blobs are unknown`);
  }
}
