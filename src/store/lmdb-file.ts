/**
 * Owns the check of an LMDB file before LMDB maps it. LMDB trusts the file: a foreign or truncated one ends the process.
 * It must never write, nor refuse a file that LMDB could use.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const MAGIC = 0xbeefc0de;
/** Offsets inside a meta page, and of the tree roots inside it; a page has a header of 24 bytes. */
const AT = {
  magic: 24,
  pageBytes: 48,
  roots: [88, 136],
  lastPage: 144,
  transaction: 152,
  end: 160,
} as const;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;
const PAGE_BYTES_MIN = 512;
const PAGE_BYTES_MAX = 65_536;
/** LMDB counts pages that one transaction took and freed at the end of the file, but never writes them. */
const UNWRITTEN_PAGES_MAX = 64n;

/** @throws Error that names the folder and the remedy. A missing or empty file is a new one. */
export function assertIntact(folder: string, path: string): void {
  const damage = fileDamage(path);
  if (damage === null) return;
  throw new Error(
    `the data folder ${folder} is damaged (${path}: ${damage}): restore it from a backup, or set another data folder`,
  );
}

function fileDamage(path: string): string | null {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    // The file is absent or not readable: opening it gives a better error.
    return null;
  }
  try {
    return fstatSync(file).size === 0 ? null : metaDamage(file);
  } finally {
    closeSync(file);
  }
}

function metaDamage(file: number): string | null {
  const first = readMeta(file, 0);
  const pageBytes = first?.readUInt32LE(AT.pageBytes) ?? 0;
  if (!first || pageBytes < PAGE_BYTES_MIN || pageBytes > PAGE_BYTES_MAX) {
    return 'not a database file';
  }
  const second = readMeta(file, pageBytes);
  if (!second) return 'the second head is missing';
  const newest =
    second.readBigUInt64LE(AT.transaction) > first.readBigUInt64LE(AT.transaction) ? second : first;
  // After the heads: a service that writes meanwhile makes the file longer before its head names the new pages.
  const pages = BigInt(Math.ceil(fstatSync(file).size / pageBytes));
  const pagesMin = newest.readBigUInt64LE(AT.lastPage) - UNWRITTEN_PAGES_MAX;
  const rootsInside = AT.roots
    .map((at) => newest.readBigUInt64LE(at))
    .every((root) => root === NO_PAGE || root < pages);
  return rootsInside && pages > pagesMin ? null : 'the file is cut short';
}

function readMeta(file: number, at: number): Buffer | null {
  const meta = Buffer.alloc(AT.end);
  const length = readSync(file, meta, 0, AT.end, at);
  return length === AT.end && meta.readUInt32LE(AT.magic) === MAGIC ? meta : null;
}
