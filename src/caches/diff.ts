/**
 * Owns the comparison of two caches: where their conversations part, and how many leading tokens they share.
 * It must never count tokens of a cache that failed: nothing bounds how many it has.
 */
import { limits } from '../limits/index.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { ConversationDiff } from '../rules/conversation-diff.js';
import { bodyOf, type CachesParts, type FoundCache } from './parts.js';

/** Where the conversations of two caches part. */
export interface CacheDiff {
  readonly caches: readonly [CacheRecord, CacheRecord];
  readonly diff: ConversationDiff;
  /** Leading tokens that are equal; 0 where they cannot be compared. */
  readonly sharedTokens: number;
}

export async function cacheDiff(
  { differ, sharedTokens }: Pick<CachesParts, 'differ' | 'sharedTokens'>,
  owner: string,
  [one, other]: readonly [FoundCache, FoundCache],
): Promise<CacheDiff> {
  const caches = [one.record, other.record] as const;
  const [first, second] = [bodyOf(one), bodyOf(other)];
  const diff = await differ(owner, first, second);
  const { family } = one.record;
  const hasTokens = family === other.record.family && caches.every(isCounted);
  const shared = hasTokens ? await sharedTokens(owner, family, [first, second]) : 0;
  return { caches, diff, sharedTokens: shared };
}

/** A cache that will fail for its content is `pending` first. */
function isCounted({ status, contentFault, tokens }: CacheRecord): boolean {
  return status !== 'error' && contentFault === null && tokens <= limits.cacheTokensMax;
}
