/**
 * Owns what every user of a part does first: it makes the tables where there are none, checks their format, and reads all records.
 * It must never hold a transaction open between two pages.
 */
import { randomUUID } from 'node:crypto';
import { limits } from '../limits/index.js';
import { allShards, nameOf } from '../rules/shards.js';
import { DATA_FORMAT } from './data-format.js';
import type { MirrorRow } from './mirror.js';
import { type DatabaseDoor, isMadeTwice } from './postgres-connection.js';
import {
  mirrorRow,
  type PartName,
  type PartRow,
  type RecordRow,
  statements,
  tables,
} from './postgres-tables.js';

const MADE_ATTEMPTS = 3;
/** Of `records` that lie in shards: a version that knows no shards must not take them. */
export const PARTED_FORMAT = 3;
const SHARDS = /^shards:([1-9]\d*)$/;

/**
 * @param newId of the store, where the part is not there yet.
 * @returns the id of the store, which its tables got when they were made. @throws Error for a newer format.
 */
export async function openPart(
  connection: DatabaseDoor,
  part: PartName,
  newId: string = randomUUID(),
): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      for (const statement of tables) await connection.query(statement);
      break;
    } catch (cause) {
      if (!isMadeTwice(cause) || attempt === MADE_ATTEMPTS) throw cause;
    }
  }
  await connection.query(statements.addPart, [part, newId, DATA_FORMAT]);
  const { store_id: storeId, format } = await readPart(connection, part);
  if (Number(format) <= PARTED_FORMAT) return storeId;
  throw new Error(
    `the database ${connection.database} was written by a newer version of preface (data format ${format}, this version reads up to ${PARTED_FORMAT}): start that version, or set another database; nothing was changed`,
  );
}

/** How the records lie in the database. */
export interface Parting {
  readonly storeId: string;
  /** How many shards they have. */
  readonly shards: number;
}

/** The row of `records` names the store and the number of its shards, wherever the records are. */
export async function openRecords(connection: DatabaseDoor): Promise<Parting> {
  const storeId = await openPart(connection, 'records');
  return { storeId, shards: shardsOf(await readPart(connection, 'records')) };
}

/** 1: all records are in the part `records`. */
export function shardsOf({ format, holder }: Pick<PartRow, 'format' | 'holder'>): number {
  if (Number(format) !== PARTED_FORMAT) return 1;
  const [, count = ''] = SHARDS.exec(holder) ?? [];
  if (count !== '') return Number(count);
  throw new Error(`the records are parted, and ${JSON.stringify(holder)} says not how`);
}

/** What stands for the holder of `records` where each shard has a holder of its own. */
export function shardsHolder(count: number): string {
  return `shards:${count}`;
}

export function shardsText(count: number): string {
  return count === 1 ? 'one shard' : `${count} shards`;
}

/** Where there are several, they have a part each. */
export async function makeParts(
  connection: DatabaseDoor,
  { storeId, shards }: Parting,
): Promise<void> {
  for (const shard of allShards(shards))
    await openPart(connection, nameOf('records', shard), storeId);
}

export async function readPart(connection: DatabaseDoor, part: PartName): Promise<PartRow> {
  const { rows } = await connection.query<PartRow>(statements.readPart, [part]);
  const [row] = rows;
  if (row === undefined) throw new Error(`the database ${connection.database} lost its tables`);
  return row;
}

const NO_KEY: Buffer = Buffer.alloc(0);
const { postgresPageMin, postgresPageMax, postgresPageBytes } = limits;

/** All rows of a part in the order of their keys. A page has so many rows that its bytes are few. */
export async function* allRows(
  connection: DatabaseDoor,
  part: PartName,
): AsyncGenerator<MirrorRow[]> {
  let length: number = postgresPageMin;
  for (let last = NO_KEY; ; ) {
    const { rows } = await connection.query<RecordRow>(statements.page, [part, last, length]);
    if (rows.length > 0) yield rows.map(mirrorRow);
    if (rows.length < length) return;
    last = rows.at(-1)?.key ?? last;
    const bytes = rows.reduce((sum, { value }) => sum + (value?.length ?? 0), 0);
    if (bytes < postgresPageBytes / 2) length = Math.min(postgresPageMax, 2 * length);
    else if (bytes > postgresPageBytes) length = Math.max(1, length >> 1);
  }
}
