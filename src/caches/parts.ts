/**
 * Owns the parts that the context caches are built from, and the form in which a found cache is handed out.
 * It must never read a body before a caller asks for it.
 */

import type { Held } from '../actors/quota.js';
import type { Clock, NewBytes } from '../clock.js';
import { decodeBody, type StoredBody } from '../parsing/stored-body.js';
import type { Talk } from '../parsing/talk.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { ConversationDiff } from '../rules/conversation-diff.js';
import type { CanonicalPrefix } from '../rules/prefix.js';
import type { Store, StoreKey } from '../store/store.js';
import type { ContentReview } from './faults.js';
import type { PrefillQueue } from './prefill-queue.js';
import type { PromotedDisk } from './promoted-disk.js';
import type { Prefiller } from './snapshots.js';

export interface CachesParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly newBytes: NewBytes;
  readonly report: (fault: unknown) => void;
  /** Whether a record that is not in this shard lies in another one: it is another user's. Never, if absent. */
  readonly elsewhere?: ((key: StoreKey) => boolean) | undefined;
  readonly prefiller: Prefiller;
  readonly families: readonly string[];
  /** Whether the owner can chat with any model of the family. */
  readonly isOpen: (owner: string, family: string) => boolean;
  /** The tokens of this prefix as a chat would count them, without the tokens that open the answer. */
  readonly countTokens: (owner: string, family: string, talk: Talk) => Promise<number>;
  /** Where two stored conversations part. */
  readonly differ: (owner: string, one: StoredBody, other: StoredBody) => Promise<ConversationDiff>;
  /** How many leading tokens two stored prefixes have in common. */
  readonly sharedTokens: (
    owner: string,
    family: string,
    stored: readonly [StoredBody, StoredBody],
  ) => Promise<number>;
  /** Absent where there is no content review. */
  readonly review?: ContentReview;
  /** The most tokens of all live caches of one owner; `limits.accountCachedTokensDefault` if absent. */
  readonly tokensMax?: (owner: string) => number;
  /** Tags the owner may keep; `limits.accountTagsDefault` if absent. */
  readonly tagsMax?: (owner: string) => number;
  /** The room for prefixes that nobody named; absent: none are kept. */
  readonly promoted?: PromotedDisk;
  /** In which the prefills of all shards wait; one of its own if absent. */
  readonly prefills?: PrefillQueue;
  /** How long an expired cache stays; `limits.cacheKeepMs` if absent. */
  readonly keepMs?: number;
  /** The most that one owner's caches may take of the store; the bounds of `limits` if absent. */
  readonly quotaMax?: Held;
}

/** A cache, and the functions that read its messages and tools when a caller asks for them. */
export interface FoundCache {
  readonly record: CacheRecord;
  /** As they are stored; the caller may move them. @throws ApiError where the cache is gone by now. */
  stored(): Uint8Array;
  /** As canonical texts: only for a cache that is small. */
  texts(): CanonicalPrefix;
}

export function bodyOf({ record, stored }: FoundCache): StoredBody {
  return { bytes: record.bytes, read: stored };
}

export function found(record: CacheRecord, stored: () => Uint8Array): FoundCache {
  return { record, stored, texts: () => decodeBody(stored()) };
}
