/**
 * Owns the form of file ids, which are also names on the disk.
 * It must never accept an id that could name another path.
 */
import type { NewBytes } from '../clock.js';
import { limits } from '../limits/index.js';
import { idLetters } from './id-letters.js';

const ID = new RegExp(`^[a-z0-9]{${limits.fileIdLength}}$`);

export function newFileId(newBytes: NewBytes): string {
  return idLetters(newBytes, limits.fileIdLength);
}

/** No other form was ever issued. */
export function isFileId(text: string): boolean {
  return ID.test(text);
}
