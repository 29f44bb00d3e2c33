/**
 * Owns how a file gets onto the disk: a part file, its bytes flushed, the final name, the folder flushed.
 * It must never show a file under its final name before the disk has all of its bytes.
 */
import { constants } from 'node:fs';
import { chmod, copyFile, open, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

const PRIVATE_FILE = 0o600;
/** The name of a file that is not whole yet ends with it. */
export const PART = '.part';

/** Writes the whole file or nothing, also across a power cut. A file of that name is replaced. */
export async function writeDurably(path: string, text: string): Promise<void> {
  await writeFile(path + PART, text, { mode: PRIVATE_FILE });
  await settled(path + PART, path);
}

/** Copies the whole file or nothing, also across a power cut. */
export async function copyDurably(from: string, to: string): Promise<void> {
  await copyFile(from, to + PART, constants.COPYFILE_FICLONE);
  await chmod(to + PART, PRIVATE_FILE);
  await settled(to + PART, to);
}

/** Flushes what somebody wrote to `part`, then names it. */
export async function settled(part: string, path: string): Promise<void> {
  // A link is not followed: nobody may make us name a file that is not ours.
  await synced(part, constants.O_RDONLY | constants.O_NOFOLLOW);
  await named(part, path);
}

/** For a part whose bytes are on the disk already. */
export async function named(part: string, path: string): Promise<void> {
  await rename(part, path);
  // A power cut could take the name away until the folder is on the disk too.
  await synced(dirname(path));
}

/** Resolves when the disk has a file's bytes, or a folder's names. */
export async function synced(path: string, flags: number = constants.O_RDONLY): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
