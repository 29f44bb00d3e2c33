/**
 * Owns what makes a cache an actor: the pure state machine beside the records it is kept in.
 * It must stay pure, like any logic.
 */

import type { Logic } from '../actors/actor.js';
import {
  type CacheEffect,
  type CacheMessage,
  type CacheRecord,
  type CacheState,
  cacheTransition,
  pendingEffects,
} from '../rules/cache-state.js';
import { cacheKeys, indexChanges } from './records.js';

export type CacheLogic = Logic<CacheState, CacheRecord, CacheMessage, CacheState, CacheEffect>;

export function cacheLogic(keepMs: number): CacheLogic {
  return {
    key: cacheKeys.record,
    // After a failed write the counts in memory are the newer ones.
    restore: (saved, _id, before) => {
      if (saved === null || before === null) return saved;
      const { hits, tokensSaved, lastMissReason, remade } = before;
      return { ...saved, hits, tokensSaved, lastMissReason, remade };
    },
    saved: (state) => state,
    indexChanges: (before, next) => indexChanges(before, next, keepMs),
    transition: (state, message, nowMs) => cacheTransition(state, message, nowMs, keepMs),
    resume: pendingEffects,
    evictable: () => true,
  };
}
