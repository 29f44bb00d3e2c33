/**
 * Owns one step of the examination of a data folder, in a process that a damaged page may end.
 * It must never open the records for writing, nor print what is in one.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { markOf } from '../admin/bucket.js';
import { decodeWhole } from '../codec.js';
import { crc32 } from '../crc32.js';
import { blobsOfFile } from '../files/records.js';
import type { FileRecord } from '../rules/file-state.js';
import { ContentSample } from '../store/content-sample.js';
import { LmdbStore } from '../store/lmdb-store.js';
import { scan } from '../store/scan.js';
import type { StoreEntry, StoreKey } from '../store/store.js';
import type { CheckLine, CheckStep } from './check-data.js';

/** Often enough to say where a page ended the process. */
const TELL_EACH = 20;

async function check({ folder, name, prefix, blobs }: CheckStep): Promise<void> {
  const store = LmdbStore.openReadOnly(folder, name);
  const storeId = blobs === 'elsewhere' ? await markOf(store) : null;
  let count = 0;
  for (const entry of scan(store, { prefix: prefix === null ? [] : [prefix] })) {
    if (count % TELL_EACH === 0) tell({ type: 'at', key: nameOf(entry.key) });
    count += 1;
    if (prefix !== null) await checkRecord(entry, blobs === 'here' ? folder : null, storeId);
  }
  await store.close();
  tell({ type: 'done', count });
}

/** @param folder that has the bytes of files; null: none has. */
async function checkRecord(
  { key, record }: StoreEntry,
  folder: string | null,
  storeId: string | null,
): Promise<void> {
  const value = decodeWhole<unknown>(record.value);
  if (value === null)
    tell({ type: 'damaged', kind: 'record', what: `the record ${nameOf(key)} is damaged` });
  else if (key[0] !== 'file') return;
  else if (folder !== null) await checkFile(folder, value as FileRecord);
  else for (const blob of blobsOfFile(value as FileRecord)) tell({ type: 'blob', blob, storeId });
}

async function checkFile(folder: string, file: FileRecord): Promise<void> {
  for (const { name, ...known } of blobsOfFile(file)) await checkBlob(folder, name, known);
}

interface Known {
  readonly bytes: number;
  readonly sample?: string;
  readonly crc32?: number | undefined;
}

/** What is told is no more than its name: it may be anybody's document. */
async function checkBlob(folder: string, name: string, known: Known): Promise<void> {
  let isMissing = false;
  const fault = await blobFault(join(folder, 'files', name), known).catch(
    (cause: NodeJS.ErrnoException) => {
      isMissing = cause.code === 'ENOENT';
      return isMissing ? 'is not there' : `cannot be read (${cause.code})`;
    },
  );
  if (fault === null) return;
  const missing = isMissing ? { missing: name } : {};
  tell({ type: 'damaged', kind: 'blob', what: `the blob files/${name} ${fault}`, ...missing });
}

async function blobFault(path: string, known: Known): Promise<string | null> {
  const { size } = await stat(path);
  if (size !== known.bytes) return `has ${size} bytes instead of ${known.bytes}`;
  let sum = 0;
  const sample = new ContentSample();
  for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
    sum = crc32(piece, sum);
    sample.update(piece);
  }
  const same =
    (known.crc32 === undefined || known.crc32 === sum) &&
    (known.sample === undefined || known.sample === sample.digest());
  return same ? null : 'has other bytes than it was written with';
}

/** Keys may hold text that is long, or that a terminal obeys. */
function nameOf(key: StoreKey): string {
  return JSON.stringify(key).slice(0, 200);
}

function tell(line: CheckLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

await check(JSON.parse(process.argv[2] ?? '{}') as CheckStep);
