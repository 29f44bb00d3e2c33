/**
 * Owns the figures that are read from the machine: sizes of files, free disk space, memory of processes.
 * It must never block, nor fail when something does not exist: that counts as 0.
 */
import { readdir, readFile, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';

const STATM_PAGE_BYTES = 4096;

/** Bytes of a file, or of all files below a folder. */
export async function sizeBytes(path: string): Promise<number> {
  try {
    const found = await stat(path);
    if (!found.isDirectory()) return found.size;
    const names = await readdir(path);
    const sizes = await Promise.all(names.map((name) => sizeBytes(join(path, name))));
    return sizes.reduce((sum, size) => sum + size, 0);
  } catch {
    return 0;
  }
}

/** Bytes that this user may still write below a folder. */
export async function freeBytes(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

/** 0 where the system has no /proc. */
export async function residentBytes(pid: number | undefined): Promise<number> {
  try {
    const text = await readFile(`/proc/${pid}/statm`, 'utf8');
    return Number(text.split(' ')[1]) * STATM_PAGE_BYTES;
  } catch {
    return 0;
  }
}

/** Reads at most once in `ms`, however often the value is asked for. */
export function seldom<Value>(ms: number, read: () => Promise<Value>): () => Promise<Value> {
  let last: { readonly atMs: number; readonly value: Promise<Value> } | null = null;
  return () => {
    const nowMs = performance.now();
    if (last === null || nowMs - last.atMs > ms) last = { atMs: nowMs, value: read() };
    return last.value;
  };
}
