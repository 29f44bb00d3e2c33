/**
 * Owns the form of file ids, which are also names on the disk.
 * It must never accept an id that could name another path.
 */
import { limits } from '../limits/index.js';
import { createdMsOf } from './item-id.js';

const ID = new RegExp(`^[a-z0-9]{${limits.itemIdLength}}$`);

/** No other form was ever issued. */
export function isFileId(text: string): boolean {
  return ID.test(text);
}

/** Unix seconds; null for an id that never was the owner's. */
export function fileCreatedS(owner: string, id: string): number | null {
  const ms = createdMsOf(owner, id);
  return ms === null ? null : Math.floor(ms / 1000);
}
