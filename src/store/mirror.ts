/**
 * Owns this process's copy of records whose truth is in a database: an LMDB file that answers reads at once.
 * It must never be taken for what is stored: it begins empty with every process, and holds what was put into it.
 */
import { type Database, makeFolder, openThrowaway } from './lmdb-open.js';
import { readPage, readRecord } from './lmdb-reads.js';
import { RecordRoom } from './record-room.js';
import type { StoredRecord, StoreEntry, StoreKey, StoreRange } from './store.js';

/** `value` is null for a record that is not there any more. */
export interface MirrorRow {
  readonly key: Buffer;
  readonly version: number;
  readonly value: Buffer | null;
}

/** A copy of records that answers at once. */
export interface RecordCopy {
  readonly room: Pick<RecordRoom, 'take'>;
  get(key: StoreKey): StoredRecord | null;
  page(range: StoreRange): StoreEntry[];
  versionOf(key: Buffer): number | null;
  /** Resolves when reads see all of it. */
  apply(rows: readonly MirrorRow[]): Promise<void>;
  clear(): Promise<void>;
  /** @throws Error once it is closed. */
  assertOpen(): void;
  close(): Promise<void>;
}

export class Mirror implements RecordCopy {
  readonly #db: Database;
  readonly room: RecordRoom;
  #closed = false;

  /** @param name of the file; only one process may have it. */
  constructor(folder: string, name: string, bytesMax = Number.POSITIVE_INFINITY) {
    makeFolder(folder);
    this.#db = openThrowaway(folder, `${name}.mdb`);
    this.room = new RecordRoom(this.#db, bytesMax);
  }

  get(key: StoreKey): StoredRecord | null {
    this.assertOpen();
    return readRecord(this.#db, key);
  }

  page(range: StoreRange): StoreEntry[] {
    this.assertOpen();
    return readPage(this.#db, range);
  }

  versionOf(key: Buffer): number | null {
    return this.#db.getEntry(key)?.version ?? null;
  }

  async apply(rows: readonly MirrorRow[]): Promise<void> {
    await this.#db.batch(() => {
      for (const { key, version, value } of rows) {
        if (value === null) void this.#db.remove(key);
        else void this.#db.put(key, value, version);
      }
    });
  }

  async clear(): Promise<void> {
    await this.#db.clearAsync();
  }

  /** Reading a closed file ends the process. */
  assertOpen(): void {
    if (this.#closed) throw new Error('the store is closed');
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#db.close();
  }
}
