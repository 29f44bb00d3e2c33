/**
 * Owns the effects of a cache's state machine: prefill, refuse, forget, release.
 * It must never change the state of a cache: results go back to its actor as messages.
 */

import type { EffectRunner } from '../actors/actor.js';
import type { Quota } from '../actors/quota.js';
import type { CacheEffect, CacheRecord } from '../rules/cache-state.js';
import { cacheError } from './faults.js';
import type { CacheActorMessage } from './logic.js';
import type { SnapshotKeeper } from './snapshots.js';
import type { CacheTokens } from './tokens.js';

export interface CacheEffectsParts {
  /** Reads the record as it is stored. */
  readonly read: (id: string) => CacheRecord | null;
  readonly snapshots: SnapshotKeeper;
  readonly quota: Quota;
  readonly tokens: CacheTokens;
}

export function cacheEffects(
  parts: CacheEffectsParts,
): EffectRunner<CacheActorMessage, CacheEffect> {
  const { snapshots, quota, tokens } = parts;
  return async (effect, id) => {
    switch (effect.type) {
      case 'prefill':
        return await prefill(parts, id, effect.generation);
      case 'refuse':
        return { ...effect, type: 'prefill-failed' };
      case 'forget':
        tokens.release(effect.cache.owner, effect.cache.tokens);
        await snapshots.forget(effect.cache.hash);
        await snapshots.unpin(effect.cache.hash);
        return null;
      case 'release':
        quota.release(effect.owner, effect.bytes);
        return null;
    }
  };
}

async function prefill(
  { read, snapshots }: CacheEffectsParts,
  id: string,
  generation: number,
): Promise<CacheActorMessage | null> {
  const record = read(id);
  // The cache was deleted, or has begun a newer attempt with an effect of its own.
  if (record?.generation !== generation) return null;
  try {
    const outcome = await snapshots.prefill(record.owner, record.hash);
    return outcome === 'unwanted' ? null : { type: 'prefilled', generation, snapshot: outcome };
  } catch (cause) {
    return { type: 'prefill-failed', generation, error: cacheError(cause) };
  }
}
