/**
 * Owns the form of cache ids.
 * It must never make one that could be guessed.
 */
import type { NewBytes } from '../clock.js';
import { limits } from '../limits/index.js';
import { idLetters } from './id-letters.js';

const ID = new RegExp(`^cache-[a-z0-9]{${limits.cacheIdLength}}$`);

/** Milliseconds in base 36, until the year 2059. */
const TIME_LETTERS = 8;

/**
 * The time stands first, so that new records lie beside each other in the store and not each in a page of its own;
 * what follows are 62 random bits.
 */
export function newCacheId(newBytes: NewBytes, nowMs: number): string {
  const time = Math.max(0, Math.trunc(nowMs))
    .toString(36)
    .padStart(TIME_LETTERS, '0')
    .slice(-TIME_LETTERS);
  return `cache-${time}${idLetters(newBytes, limits.cacheIdLength - TIME_LETTERS)}`;
}

/** No other form was ever issued. */
export function isCacheId(text: string): boolean {
  return ID.test(text);
}
