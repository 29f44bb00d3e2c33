/**
 * Owns the copy of a part while another process writes it, so that who takes over reads only what is new.
 * It must never pass a version whose changes it has not read: where the log has a gap, it reads the whole part again.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import { logKey, logOf, unpackKeys } from './change-log.js';
import type { MirrorRow, RecordCopy } from './mirror.js';
import type { DatabaseDoor } from './postgres-connection.js';
import { allRows } from './postgres-part.js';
import { mirrorRow, type PartName, type RecordRow, statements } from './postgres-tables.js';

export interface FollowerParts {
  readonly connection: DatabaseDoor;
  readonly part: PartName;
  readonly mirror: RecordCopy;
  readonly clock: Clock;
}

const { leasePollMs, storePageMax, followedKeys } = limits;

export class Follower {
  readonly #parts: FollowerParts;
  /** The copy has every change up to this one; null while it does not have all records. */
  #version: number | null = null;
  /** Of the part when the reading of all records began; later changes are read by the log. */
  #begunAt = 0;
  /** Of all records, while they are read. */
  #pages: AsyncGenerator<MirrorRow[]> | null = null;
  /** Keys of rows without a value, the newest last. */
  #removed: Buffer[] = [];

  constructor(parts: FollowerParts) {
    this.#parts = parts;
  }

  /** Whether the copy has all records, as they were at the last step. */
  get isWhole(): boolean {
    return this.#version !== null;
  }

  /** A step, which takes about as long as the pause between two attempts to take the lease. @param version of the part now. */
  async follow(version: number): Promise<void> {
    if (this.#version === null) {
      // One that writes no log cannot be followed: the copy would be made again and again.
      if (this.#pages !== null || (await this.#isLogged(version)))
        await this.#load(version, leasePollMs);
    } else if (!(await this.#catchUp(version, leasePollMs))) this.#version = null;
  }

  /** Reads what is missing. Nobody else writes meanwhile. @returns keys of rows without a value. */
  async finish(version: number): Promise<Buffer[]> {
    do {
      while (this.#version === null) await this.#load(version, Number.POSITIVE_INFINITY);
      if (!(await this.#catchUp(version, Number.POSITIVE_INFINITY))) this.#version = null;
    } while (this.#version === null);
    this.#version = null;
    return this.#removed.splice(0);
  }

  async #isLogged(version: number): Promise<boolean> {
    return version === 0 || (await this.#logged(version - 1, 1)).length > 0;
  }

  /** Reads records for so long. */
  async #load(version: number, ms: number): Promise<void> {
    const { connection, part, mirror, clock } = this.#parts;
    const endMs = clock.monotonicMs() + ms;
    try {
      if (this.#pages === null) {
        this.#begunAt = version;
        this.#removed = [];
        await mirror.clear();
        this.#pages = allRows(connection, part);
      }
      do {
        const { value: rows, done } = await this.#pages.next();
        if (done) {
          [this.#pages, this.#version] = [null, this.#begunAt];
          return;
        }
        await this.#apply(rows);
      } while (clock.monotonicMs() < endMs);
    } catch (cause) {
      this.#pages = null;
      throw cause;
    }
  }

  /** Reads changes for so long. @returns false where the log has a gap. */
  async #catchUp(version: number, ms: number): Promise<boolean> {
    const { clock } = this.#parts;
    const endMs = clock.monotonicMs() + ms;
    let at = this.#version ?? version;
    while (at < version) {
      const logged = await this.#logged(at, Math.min(storePageMax, version - at));
      if (logged.length === 0) return false;
      await this.#read(logged.flatMap(({ value }) => unpackKeys(value ?? NONE)));
      at += logged.length;
      this.#version = at;
      if (clock.monotonicMs() >= endMs) break;
    }
    return at <= version;
  }

  /** The rows of the log behind that version, as far as none is missing. */
  async #logged(version: number, length: number): Promise<RecordRow[]> {
    const { connection, part } = this.#parts;
    const values = [logOf(part), logKey(version), length];
    const { rows } = await connection.query<RecordRow>(statements.page, values);
    const gap = rows.findIndex((row, at) => Number(row.version) !== version + 1 + at);
    return gap < 0 ? [...rows] : rows.slice(0, gap);
  }

  /** A key without a row is that of a record that was removed. */
  async #read(changed: readonly Buffer[]): Promise<void> {
    const { connection, part } = this.#parts;
    const keys = [...new Map(changed.map((key) => [key.toString('latin1'), key])).values()];
    for (let at = 0; at < keys.length; at += followedKeys) {
      const some = keys.slice(at, at + followedKeys);
      const { rows } = await connection.query<RecordRow>(statements.rows, [part, some]);
      const found = new Set(rows.map(({ key }) => key.toString('latin1')));
      const gone = some.filter((key) => !found.has(key.toString('latin1')));
      const none = gone.map((key): MirrorRow => ({ key, version: 0, value: null }));
      await this.#parts.mirror.apply(none);
      await this.#apply(rows.map(mirrorRow));
    }
    this.#removed = this.#removed.slice(-storePageMax);
  }

  async #apply(rows: readonly MirrorRow[]): Promise<void> {
    for (const { key, value } of rows) if (value === null) this.#removed.push(key);
    await this.#parts.mirror.apply(rows);
  }
}

const NONE = Buffer.alloc(0);
