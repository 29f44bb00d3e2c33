/**
 * Owns the form of cache ids.
 * It must never make one that could be guessed.
 */
import type { NewBytes } from '../clock.js';
import { limits } from '../limits.js';
import { idLetters } from './id-letters.js';

const ID = new RegExp(`^cache-[a-z0-9]{${limits.cacheIdLength}}$`);

export function newCacheId(newBytes: NewBytes): string {
  return `cache-${idLetters(newBytes, limits.cacheIdLength)}`;
}

/** Anything else was never given out. */
export function isCacheId(text: string): boolean {
  return ID.test(text);
}
