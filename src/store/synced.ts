/**
 * Owns the wait until the disk has what was written.
 * It must never create or change anything.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/** A file is there whole after a power cut; a folder still has the names that it was given. */
export async function synced(path: string, flags: number = constants.O_RDONLY): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
