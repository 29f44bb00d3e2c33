/**
 * Owns what the context caches are made with, and how one of them is handed to who found it.
 * It must never read a body before somebody wants it.
 */

import type { Held } from '../actors/quota.js';
import type { Clock, NewBytes } from '../clock.js';
import { readCacheContent } from '../protocol/caching.js';
import type { ChatMessage } from '../protocol/message.js';
import type { ChatTool } from '../protocol/tool.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { CanonicalPrefix } from '../rules/prefix.js';
import type { Store } from '../store/store.js';
import type { ContentReview } from './faults.js';
import type { Prefiller } from './snapshots.js';

export interface CachesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly newBytes: NewBytes;
  readonly report: (fault: unknown) => void;
  readonly prefiller: Prefiller;
  readonly families: readonly string[];
  /** Whether the owner can chat with any model of the family. */
  readonly isOpen: (owner: string, family: string) => boolean;
  /** The number a chat with this prefix would count, without what opens the answer. */
  readonly countTokens: (
    owner: string,
    family: string,
    messages: readonly ChatMessage[],
    tools: readonly ChatTool[],
  ) => Promise<number>;
  /** Absent where there is no content review. */
  readonly review?: ContentReview;
  /** What all live caches of the owner may have together; `limits.accountCachedTokensDefault` if absent. */
  readonly tokensMax?: (owner: string) => number;
  /** How long an expired cache stays; `limits.cacheKeepMs` if absent. */
  readonly keepMs?: number;
  /** What one owner's caches may take; the bounds of `limits` if absent. */
  readonly quotaMax?: Held;
}

/** A cache and the way to its messages and tools, which are read only when somebody wants them. */
export interface FoundCache {
  readonly record: CacheRecord;
  /** As canonical texts: what is compared and answered. */
  texts(): CanonicalPrefix;
  /** As a chat works with them. */
  content(): { readonly messages: readonly ChatMessage[]; readonly tools: readonly ChatTool[] };
}

export function found(record: CacheRecord, texts: () => CanonicalPrefix): FoundCache {
  return { record, texts, content: () => readCacheContent(texts()) };
}
