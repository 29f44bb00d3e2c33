/**
 * Owns the filling of a part that nobody serves, and the switch by which records that lay in shards lie in one part again.
 * It must never write what a later run has claimed, nor open a part before it is known that nobody else writes the records.
 */
import { createHash } from 'node:crypto';
import { limits } from '../limits/index.js';
import { logOf } from './change-log.js';
import { DATA_FORMAT } from './data-format.js';
import type { DatabaseDoor } from './postgres-connection.js';
import { allRows, PARTED_FORMAT, readPart, shardsHolder } from './postgres-part.js';
import { type PartName, statements } from './postgres-tables.js';

/** A part, and the number of the claim or lease of it. */
export interface FencedPart {
  readonly part: PartName;
  readonly fence: number;
}

interface Row {
  readonly key: Buffer;
  readonly value: Uint8Array;
}

interface Claimed {
  readonly fence: string;
}

export class PartWriter implements FencedPart {
  /** Of all that was put, in the order of the keys. */
  readonly #put = new RowDigest();
  #waiting: Row[] = [];

  private constructor(
    private readonly connection: DatabaseDoor,
    readonly part: PartName,
    readonly fence: number,
  ) {}

  /** A part that is closed, or that nobody has. @throws Error where a process has it. */
  static async claim(connection: DatabaseDoor, part: PartName): Promise<PartWriter> {
    const values = [part, PARTED_FORMAT];
    const { rows } = await connection.query<Claimed>(statements.claimPart, values);
    const [row] = rows;
    if (row !== undefined) return new PartWriter(connection, part, Number(row.fence));
    const { holder } = await readPart(connection, part);
    throw new Error(`${holder} has the part ${part}: stop the services first`);
  }

  get count(): number {
    return this.#put.count;
  }

  /** Removes all its rows, and those of its log. */
  async clear(): Promise<void> {
    for (const rows of [this.part, logOf(this.part)]) {
      const values = [this.part, this.fence, rows, limits.storeChangesMax];
      for (;;) {
        const { count } = await this.connection.query(statements.clearPart, values);
        if (count < limits.storeChangesMax) break;
      }
    }
  }

  /** In the order of the keys. It is written with the next `flush`. */
  add(key: Buffer, value: Uint8Array): void {
    this.#put.add(key, value);
    this.#waiting.push({ key, value });
  }

  async flush(): Promise<void> {
    const rows = this.#waiting;
    if (rows.length === 0) return;
    this.#waiting = [];
    const [keys, bytes] = [rows.map(({ key }) => key), rows.map(({ value }) => value)];
    const values = [this.part, this.fence, keys, bytes];
    const { count } = await this.connection.query(statements.fillPart, values);
    if (count === 0) throw new Error(`another process took over the part ${this.part}`);
  }

  /** Reads what the database has. @throws Error where that is not what was put. */
  async compare(): Promise<void> {
    const found = new RowDigest();
    for await (const rows of allRows(this.connection, this.part))
      for (const { key, value } of rows) if (value !== null) found.add(key, value);
    if (found.count === this.count && found.sum() === this.#put.sum()) return;
    throw new Error(
      `the copy in the part ${this.part} differs from the original (${found.count} records of ${this.count}): run this again`,
    );
  }
}

/** All or none of them. @throws Error where another process took one. */
export async function openParts(
  connection: DatabaseDoor,
  parts: readonly FencedPart[],
): Promise<void> {
  await connection.run(async (query) => {
    await query(statements.begin);
    const { count } = await query(statements.openParts, [...columns(parts), DATA_FORMAT]);
    await query(count === parts.length ? statements.commit : statements.rollback);
    if (count !== parts.length) throw new Error(TAKEN);
  });
}

/** From here on all records are in `whole`, and nobody takes a shard. @throws Error where another process took one. */
export async function joinParts(
  connection: DatabaseDoor,
  shards: readonly FencedPart[],
  whole: FencedPart,
): Promise<void> {
  await connection.run(async (query) => {
    await query(statements.begin);
    const closing = [...columns(shards), PARTED_FORMAT, shardsHolder(1)];
    const closed = await query(statements.closeParts, closing);
    const opened = await query(statements.openParts, [...columns([whole]), DATA_FORMAT]);
    const isDone = closed.count === shards.length && opened.count === 1;
    await query(isDone ? statements.commit : statements.rollback);
    if (!isDone) throw new Error(TAKEN);
  });
}

const TAKEN =
  'another process took a part of the records meanwhile, and nothing is switched: run this again with all services stopped';

function columns(parts: readonly FencedPart[]): readonly [string[], number[]] {
  return [parts.map(({ part }) => part), parts.map(({ fence }) => fence)];
}

class RowDigest {
  readonly #hash = createHash('sha256');
  count = 0;

  add(key: Uint8Array, value: Uint8Array): void {
    this.count += 1;
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32BE(key.length);
    lengths.writeUInt32BE(value.length, 4);
    this.#hash.update(lengths).update(key).update(value);
  }

  sum(): string {
    return this.#hash.copy().digest('hex');
  }
}
