/**
 * Owns the form of file ids, which also name what lies on the disk.
 * It must never let through one that could mean anything else there.
 */
import type { NewBytes } from '../clock.js';
import { limits } from '../limits/index.js';
import { idLetters } from './id-letters.js';

const ID = new RegExp(`^[a-z0-9]{${limits.fileIdLength}}$`);

export function newFileId(newBytes: NewBytes): string {
  return idLetters(newBytes, limits.fileIdLength);
}

/** Anything else was never given out. */
export function isFileId(text: string): boolean {
  return ID.test(text);
}
