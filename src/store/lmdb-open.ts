/**
 * Owns the one door to LMDB: how its files are opened, claimed and copied.
 * It must never write a record, nor open a file before it has looked at it.
 */
import { accessSync, constants, existsSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { limits } from '../limits/index.js';
import { assertReadable, FORMAT_RECORD } from './data-format.js';
import { assertIntact } from './lmdb-file.js';

/** Another process has claimed the file. */
export class DataFolderInUseError extends Error {
  readonly code = 'DATA_FOLDER_IN_USE';

  constructor(folder: string) {
    super(
      `the data folder ${folder} is in use by another process: stop that one, or set another data folder`,
    );
  }
}

export type Release = () => Promise<void>;
export type Database = RootDatabase<Uint8Array, Buffer>;

/** Options that the library documents and its types leave out. */
interface Untyped {
  readonly eventTurnBatching: boolean;
  readonly txnStartThreshold: number;
}

/** Files this process has claimed: LMDB hands a second opener in one process the same environment. */
const claimedPaths = new Set<string>();

/** In a data folder while a backup is copied into it. */
export const RESTORING = '.restoring';

/**
 * Copies what is committed now to a file that must not exist, also while other processes write; they never wait for it.
 * @throws Error; then a part of the copy may be there.
 */
export async function copyDatabase(folder: string, file: string, target: string): Promise<void> {
  const db = openReadable(folder, file, true);
  try {
    // Compacted: no page in it holds what was deleted.
    await db.backup(target, true);
  } finally {
    await db.close();
  }
}

export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : cause;
    throw new Error(
      `the data folder ${folder} is not writable (${code}): give this user write access, or set another data folder`,
      { cause },
    );
  }
  assertWhole(folder);
}

function assertWhole(folder: string): void {
  if (!existsSync(join(folder, RESTORING))) return;
  throw new Error(
    `a backup is being restored into the data folder ${folder}, or that was cut off: wait for it, or empty the folder and restore again`,
  );
}

/** Of the pages that hold records now; those that were freed are used again before the file grows. */
export function usedBytes(db: Database): number {
  const stats = db.getStats() as Readonly<Record<string, number>>;
  const pages = ['treeBranchPageCount', 'treeLeafPageCount', 'overflowPages'];
  const { pageSize = 0 } = stats;
  return pages.reduce((sum, name) => sum + (stats[name] ?? 0), 0) * pageSize;
}

/** Nothing is written before the form of what is there is known. */
export function openReadable(folder: string, file: string, readOnly = false): Database {
  // Addresses cost nothing. Growing the map does: old ones stay, and where addresses end the process would too.
  const mapSize = readOnly ? undefined : limits.storeMapBytes;
  const db = openFile(folder, file, readOnly, mapSize);
  try {
    assertReadable(folder, db.get(FORMAT_RECORD));
    return db;
  } catch (cause) {
    void db.close();
    throw cause;
  }
}

function openFile(folder: string, file: string, readOnly = false, mapSize?: number): Database {
  const path = join(folder, file);
  assertIntact(folder, path);
  try {
    const options: RootDatabaseOptionsWithPath & Untyped = {
      path,
      noSubdir: true,
      encoding: 'binary',
      keyEncoding: 'binary',
      useVersions: true,
      separateFlushed: true,
      // Off: with it a failed commit also rejects a promise that nobody can reach, and that ends the process.
      eventTurnBatching: false,
      // Never: a writer that is woken in the middle of a turn takes the core from who still has to fill its transaction.
      txnStartThreshold: 100_000,
      readOnly,
      ...(mapSize === undefined ? {} : { mapSize }),
    };
    return open<Uint8Array, Buffer>(options);
  } catch (cause) {
    throw new Error(
      `the data folder ${folder} cannot be opened (${file}: ${cause}): restore it from a backup, or set another data folder`,
      { cause },
    );
  }
}

/**
 * Makes this process the only one that may open `name`. The claim is a read transaction held open in an LMDB file of
 * its own: LMDB lists its readers, and the kernel frees the place of a dead one, so that `kill -9`, a reused pid or
 * two starts at once need no rule of ours. Nothing is ever written there, so nothing is kept from being reused.
 */
export function claim(folder: string, name: string): Release {
  const path = join(realpathSync(folder), name);
  const db = claimedPaths.has(path) ? null : openFile(folder, `${name}-claim.mdb`);
  const reader = db?.transactionSync(() => soleReader(db));
  if (!db || !reader) {
    void db?.close();
    throw new DataFolderInUseError(folder);
  }
  claimedPaths.add(path);
  return async () => {
    claimedPaths.delete(path);
    reader.done();
    await db.close();
  };
}

/** Called inside a write transaction, of which LMDB runs one at a time among all processes. */
function soleReader(db: Database): ReturnType<Database['useReadTransaction']> | null {
  db.readerCheck();
  const pids = db.readerList().matchAll(/^\s*(\d+)\s/gm);
  for (const [, pid] of pids) {
    if (Number(pid) !== process.pid) return null;
  }
  try {
    const reader = db.useReadTransaction();
    db.get(FORMAT_RECORD, { transaction: reader });
    return reader;
  } catch {
    // Another process with the same pid (in another container) holds the place.
    return null;
  }
}
