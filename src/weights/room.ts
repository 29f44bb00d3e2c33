/**
 * Owns the question whether a disk has room for weights that are about to be written.
 * It must never make room.
 */
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { sizeText } from './progress.js';

/** @param bytes null: unknown. @throws Error that names the folder, what is wanted and what is free. */
export async function checkRoom(path: string, bytes: number | null): Promise<void> {
  if (bytes === null) return;
  const { bavail, bsize } = await statfs(dirname(path));
  const free = bavail * bsize;
  if (free >= bytes) return;
  throw new Error(
    `no room for the weights in ${dirname(path)}: ${sizeText(bytes)} wanted, ${sizeText(free)} free; make room or set PREFACE_MODELS_DIR to another folder`,
  );
}
