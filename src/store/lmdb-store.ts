/**
 * Owns the records on disk: one LMDB file in the data folder, and the claim that only one process has it open.
 * It must never resolve a commit that a reader could not see, nor hand out memory that LMDB will reuse.
 */
import { accessSync, constants, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb';
import { ApiError } from '../errors.js';
import { limits } from '../limits.js';
import { assertReadable, FORMAT_RECORD, formatValue } from './data-format.js';
import { bytesKey, keyBytes, rangeBounds } from './key-order.js';
import { assertIntact } from './lmdb-file.js';
import {
  assertCommitSize,
  assertPageLimit,
  type Store,
  type StoreChange,
  type StoredRecord,
  type StoreEntry,
  type StoreKey,
  type StoreRange,
} from './store.js';

type Release = () => Promise<void>;
type Database = RootDatabase<Uint8Array, Buffer>;
/** With `separateFlushed` the promise of a commit carries the one of its flush. */
type CommitPromise = Promise<boolean> & { readonly flushed?: Promise<unknown> };

export interface LmdbStoreOptions {
  readonly folder: string;
  /** One file a name; `records` if absent. */
  readonly name?: string;
  /**
   * True (the default) claims the file for this process and fails if another has it. False is for a file that
   * several processes write by turns: then versions grow within a process, but not across them.
   */
  readonly exclusive?: boolean;
}

/** Byte 0 is below every key of ours: no range reaches the store's own records. */
const VERSION_RECORD = Buffer.of(0x00, 0x01);
/** Versions are reserved on disk in blocks, so that none comes twice, not even after a crash. */
const VERSION_BLOCK = 1_000_000;
/** Files this process has claimed: LMDB hands a second opener in one process the same environment. */
const claimedPaths = new Set<string>();

export class LmdbStore implements Store {
  readonly #db: Database;
  readonly #release: Release;
  #version: number;
  #versionEnd: number;
  #flushed: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;

  /** @throws Error naming the folder and the cure: not writable, damaged, or in use by another process. */
  static open(options: LmdbStoreOptions): LmdbStore {
    const { folder, name = 'records', exclusive = true } = options;
    makeFolder(folder);
    const release = exclusive ? claim(folder, name) : async () => {};
    try {
      return new LmdbStore(openReadable(folder, `${name}.mdb`), release);
    } catch (cause) {
      void release();
      throw cause;
    }
  }

  private constructor(db: Database, release: Release) {
    this.#db = db;
    this.#release = release;
    this.#version = this.#reserveVersions();
    this.#versionEnd = this.#version + VERSION_BLOCK;
  }

  get(key: StoreKey): StoredRecord | null {
    this.#assertOpen();
    const entry = this.#db.getEntry(keyBytes(key));
    return entry ? record(entry) : null;
  }

  page(range: StoreRange): StoreEntry[] {
    this.#assertOpen();
    assertPageLimit(range.limit);
    const { start, startExcluded, end } = rangeBounds(range);
    const bounds = range.reverse
      ? { start: end, end: start, exclusiveStart: true, reverse: true }
      : { start, end };
    const entries: StoreEntry[] = [];
    // `end` is excluded by LMDB, which is wrong at the low end of a reversed range: ask for it and look.
    const rows = this.#db.getRange({
      ...bounds,
      inclusiveEnd: range.reverse === true,
      versions: true,
    });
    for (const row of rows) {
      if (entries.length === range.limit) break;
      if (startExcluded && row.key.equals(start)) continue;
      entries.push({ key: bytesKey(row.key), record: record(row) });
    }
    return entries;
  }

  async commit(changes: readonly StoreChange[]): Promise<boolean> {
    this.#assertOpen();
    assertCommitSize(changes);
    // Keys and values are made before the first write: an error between two writes would leave half a commit.
    const steps = changes.map((change) => ({
      change,
      key: keyBytes(change.key),
      value: change.type === 'put' ? Buffer.from(change.value) : null,
    }));
    const version = this.#nextVersion();
    const conditions: CommitPromise[] = [];
    this.#guarded(steps, conditions, () => {
      for (const { key, value } of steps) {
        if (value) void this.#db.put(key, value, version);
        else void this.#db.remove(key);
      }
    });
    return await this.#settled(conditions);
  }

  async flushed(): Promise<void> {
    await this.#flushed;
  }

  close(): Promise<void> {
    this.#closing ??= this.#db.close().then(this.#release);
    return this.#closing;
  }

  /** Nests one condition block a change; the writes stand in the innermost. */
  #guarded(
    steps: readonly { change: StoreChange; key: Buffer }[],
    conditions: CommitPromise[],
    write: () => void,
    conditional = false,
  ): void {
    const [step, ...rest] = steps;
    if (!step) {
      // Writes inside a condition are one block already; a second one halved the rate.
      if (conditional) write();
      else conditions.push(this.#db.batch(write));
      return;
    }
    const { expected } = step.change;
    const inside = conditional || expected !== undefined;
    const inner = () => this.#guarded(rest, conditions, write, inside);
    if (expected === undefined) inner();
    else if (expected === null) {
      conditions.push(this.#db.ifNoExists(step.key, inner));
    } else conditions.push(this.#db.ifVersion(step.key, expected, inner));
  }

  async #settled(conditions: readonly CommitPromise[]): Promise<boolean> {
    try {
      const results = await Promise.all(conditions);
      const flushed = conditions.at(-1)?.flushed;
      if (flushed) this.#flushed = flushed;
      return results.every((holds) => holds);
    } catch (cause) {
      throw await unavailable(cause);
    }
  }

  /** LMDB itself does not look: reading a closed file ends the process. */
  #assertOpen(): void {
    if (this.#closing) throw new Error('the store is closed');
  }

  #nextVersion(): number {
    if (this.#version === this.#versionEnd) {
      this.#version = this.#reserveVersions();
      this.#versionEnd = this.#version + VERSION_BLOCK;
    }
    this.#version += 1;
    return this.#version;
  }

  /** Flushed before it returns: a version given out twice would let a stale writer win. */
  #reserveVersions(): number {
    return this.#db.transactionSync(() => {
      const last = this.#db.getEntry(VERSION_RECORD)?.version ?? 0;
      this.#db.putSync(VERSION_RECORD, Buffer.alloc(0), last + VERSION_BLOCK);
      this.#db.putSync(FORMAT_RECORD, formatValue(), 1);
      return last;
    });
  }
}

function record(entry: { value: Uint8Array; version?: number }): StoredRecord {
  const { value, version } = entry;
  if (version === undefined) throw new Error('a stored record has no version');
  return { version, value };
}

/** LMDB hides the reason in a second promise, which must be taken: left alone it would end the process. */
async function unavailable(cause: unknown): Promise<unknown> {
  if (!(cause instanceof Error && 'commitError' in cause)) return cause;
  const reason: unknown = await Promise.resolve(cause.commitError).catch((error: unknown) => error);
  const text = reason instanceof Error ? reason.message : String(reason);
  return new ApiError(
    'unavailable',
    { error: `the data folder did not take a write (${text})` },
    { retryAfterMs: limits.storeRetryMs },
  );
}

function makeFolder(folder: string): void {
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
}

/** Nothing is written before the form of what is there is known. */
function openReadable(folder: string, file: string): Database {
  const db = openFile(folder, file);
  try {
    assertReadable(folder, db.get(FORMAT_RECORD));
    return db;
  } catch (cause) {
    void db.close();
    throw cause;
  }
}

function openFile(folder: string, file: string): Database {
  const path = join(folder, file);
  assertIntact(folder, path);
  try {
    const options: RootDatabaseOptionsWithPath & { eventTurnBatching: boolean } = {
      path,
      noSubdir: true,
      encoding: 'binary',
      keyEncoding: 'binary',
      useVersions: true,
      separateFlushed: true,
      // Off: with it a failed commit also rejects a promise that nobody can reach, and that ends the process.
      eventTurnBatching: false,
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
function claim(folder: string, name: string): Release {
  const path = join(realpathSync(folder), name);
  const db = claimedPaths.has(path) ? null : openFile(folder, `${name}-claim.mdb`);
  const reader = db?.transactionSync(() => soleReader(db));
  if (!db || !reader) {
    void db?.close();
    throw new Error(
      `the data folder ${folder} is in use by another process: stop that one, or set another data folder`,
    );
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
    db.get(VERSION_RECORD, { transaction: reader });
    return reader;
  } catch {
    // Another process with the same pid (in another container) holds the place.
    return null;
  }
}
