/**
 * Owns the form of cache ids.
 * It must never take a text for an id that was not given out.
 */
import { limits } from '../limits/index.js';
import { createdMsOf } from './item-id.js';

const PREFIX = 'cache-';
const ID = new RegExp(`^${PREFIX}[a-z0-9]{${limits.itemIdLength}}$`);

/** @param item see `ItemIds`. */
export function cacheIdOf(item: string): string {
  return PREFIX + item;
}

/** No other form was ever issued. */
export function isCacheId(text: string): boolean {
  return ID.test(text);
}

/** Unix seconds; null for an id that never was the owner's. */
export function cacheCreatedS(owner: string, id: string): number | null {
  const ms = id.startsWith(PREFIX) ? createdMsOf(owner, id.slice(PREFIX.length)) : null;
  return ms === null ? null : Math.floor(ms / 1000);
}
