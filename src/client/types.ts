/**
 * Owns the types of `preface/client`: what the API takes and tells of caches and tags.
 * It must hold types only.
 */
import type OpenAI from 'openai';

export type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam;
export type Tool = OpenAI.Chat.Completions.ChatCompletionTool;

/** A context cache. Times are in seconds since 1970. */
export interface Cache {
  readonly id: string;
  readonly status: 'pending' | 'ready' | 'inactive' | 'error';
  /** The family: it serves every window of the model. */
  readonly model: string;
  readonly created_at: number;
  readonly expired_at: number;
  readonly tokens: number;
  readonly name: string;
  readonly description: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  /** The cache that it was derived from, which may be gone by now. */
  readonly base?: string;
  /** Its prefix is to stay in memory. */
  readonly pin?: true;
  /** What was prefilled, once the cache is ready; `pinned` only beside `pin`. */
  readonly snapshot?: {
    readonly bytes: number;
    readonly evaluated_tokens: number;
    readonly pinned?: boolean;
  };
  /** Why it cannot be made. */
  readonly error?: { readonly type: string; readonly message: string };
}

interface CacheFacts {
  readonly name?: string;
  readonly description?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** Keep the prefilled prefix in memory while the cache lives. */
  readonly pin?: boolean;
  /** Seconds; or `expired_at`, a time. */
  readonly ttl?: number;
  readonly expired_at?: number;
  /** They move to the new cache in the same commit. */
  readonly tags?: readonly string[];
}

interface WholeCache extends CacheFacts {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools?: readonly Tool[];
}

/** It goes on from another cache: only its own messages are evaluated. */
interface DerivedCache extends CacheFacts {
  /** Id or tag of the other. */
  readonly base: string;
  /** Behind those of the base. */
  readonly messages: readonly Message[];
  /** The base's, if it is given. */
  readonly model?: string;
}

export type NewCache = WholeCache | DerivedCache;

export type CacheChange = Pick<CacheFacts, 'metadata' | 'ttl' | 'expired_at' | 'pin'>;

/** Two caches compared. */
export interface CacheDiff {
  readonly a: CacheSide;
  readonly b: CacheSide;
  /** Leading messages and tokens that are equal. */
  readonly shared_messages: number;
  readonly shared_tokens: number;
  /** The first place that differs; null where the one goes on from the other. */
  readonly difference: string | null;
  /** Index of the first message that differs, or that only one of them has. */
  readonly message: number | null;
  /** Characters of that text before the first different one. */
  readonly character: number | null;
}

interface CacheSide {
  readonly id: string;
  readonly messages: number;
  readonly tokens: number;
}

export interface Tag {
  readonly tag: string;
  readonly cache_id: string;
  readonly created_at: number;
}

/** What the headers of a chat say of the cache that it named. */
export interface CacheOutcome {
  readonly status: 'hit' | 'miss' | 'pending' | 'expired' | 'error' | 'unknown' | null;
  readonly cacheId: string | null;
  readonly tokensSaved: number;
  readonly missReason: string | null;
}

export interface CacheUse {
  /** The new time to live after the chat: 1 to 3 600 seconds. */
  readonly resetTtl?: number;
  /** Answers what a chat would get, without inference or charge. */
  readonly dryRun?: boolean;
}
