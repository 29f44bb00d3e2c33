/**
 * Owns how the cache of a marked prefix says how long it is kept after each use.
 * It must never give a cache that a client made a life of its own.
 */
import type { CacheMetadata } from '../protocol/cache-metadata.js';
import type { CacheRecord } from './cache-state.js';

/** Clients find these caches by it: `metadata[cache_control]=300`. */
const KEY = 'cache_control';

export function lifeMetadata(ttlS: number): CacheMetadata {
  return [[KEY, String(ttlS)]];
}

/** null for a cache that a client made: a chat that marks its prefix does not change its expiry. */
export function lifeOf({ ephemeral, metadata }: CacheRecord): number | null {
  if (ephemeral !== true) return null;
  const [, ttlS] = metadata.find(([key]) => key === KEY) ?? [];
  return ttlS === undefined ? null : Number(ttlS);
}
