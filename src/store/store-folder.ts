/**
 * Owns the bond between a node's folder and the database of its records: files whose records are elsewhere count as rubbish.
 * It must never change a folder that it refuses.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_MODE } from './private-files.js';

const MARK = 'store-id';
const FILES = /^files(-\d+)?$/;

/** @throws Error for the folder of other records, which says what to do. */
export function assertOwnFolder(folder: string, storeId: string, database: string): void {
  if (hasRecords(folder)) {
    throw new Error(
      `the data folder ${folder} has records of its own, which ${database} does not know: copy them there with \`preface migrate postgres\`, set another data folder, or serve it without the setting store`,
    );
  }
  const mark = join(folder, MARK);
  const known = existsSync(mark) ? readFileSync(mark, 'utf8').trim() : null;
  if (known === storeId) return;
  if (hasFiles(folder)) {
    throw new Error(
      `the files in the data folder ${folder} belong to other records than those in ${database}: set the database that they belong to, or another data folder`,
    );
  }
  bindFolder(folder, storeId);
}

/**
 * Before anything is made in it: files that no record names would count as rubbish, and keys would be unknown to the database.
 * @throws Error for a folder whose records are in a database.
 */
export function assertRecordsHere(folder: string): void {
  if (!existsSync(join(folder, MARK)) || hasRecords(folder)) return;
  throw new Error(
    `the records of the data folder ${folder} are in PostgreSQL: name the database as PREFACE_STORE (flag --store), take them back with \`preface migrate folder --store <address>\`, or set another data folder`,
  );
}

function hasRecords(folder: string): boolean {
  return (statSync(join(folder, 'records.mdb'), { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** Of any shard. */
function hasFiles(folder: string): boolean {
  const places = readdirSync(folder).filter((name) => FILES.test(name));
  return places.some((name) => readdirSync(join(folder, name)).length > 0);
}

/** From now on the files of the folder belong to the records of that store. */
export function bindFolder(folder: string, storeId: string): void {
  writeFileSync(join(folder, MARK), `${storeId}\n`, { mode: PRIVATE_MODE.file });
}

/** From now on they belong to the records in the folder. */
export function unbindFolder(folder: string): void {
  rmSync(join(folder, MARK), { force: true });
}
