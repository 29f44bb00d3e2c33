/**
 * Owns the list of downloads into the models folder, whichever process makes them.
 * It must never touch a file of one.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '../limits/index.js';

export interface Download {
  /** Name of the file that it will be. */
  readonly file: string;
  readonly bytes: number;
  /** null where the server does not tell. */
  readonly totalBytes: number | null;
  /** False: it broke off, and goes on from there when it is asked for again. */
  readonly running: boolean;
}

const PART = '.part';

export async function downloadsIn(folder: string): Promise<Download[]> {
  const names = await readdir(folder).catch((): string[] => []);
  const files = names
    .filter((name) => name.endsWith(PART))
    .map((name) => name.slice(0, -PART.length));
  const found = await Promise.all(files.sort().map((file) => downloadOf(folder, file)));
  return found.filter((download) => download !== null);
}

/** null for one that ended meanwhile. */
async function downloadOf(folder: string, file: string): Promise<Download | null> {
  const part = join(folder, file + PART);
  const found = await stat(part).catch(() => null);
  if (found === null) return null;
  const told = Number(await readFile(`${part}.bytes`, 'utf8').catch(() => ''));
  const lock = await stat(join(folder, `${file}.lock`)).catch(() => null);
  const running = lock !== null && Date.now() - lock.mtimeMs <= limits.weightsLockStaleMs;
  return { file, bytes: found.size, totalBytes: told > 0 ? told : null, running };
}
