/**
 * Owns a chat's use of the cache it names: found or not, matched or not, reused or not, and why.
 * It must never report a hit that the engine did not report, nor fail a chat that named a cache by header.
 */
import type { Caches, FoundCache } from '../caches/caches.js';
import { ApiError, invalid } from '../errors.js';
import type { SnapshotRef } from '../plugin/contract.js';
import type { CacheOptions } from '../protocol/cache-options.js';
import { readCacheContent } from '../protocol/caching.js';
import type { ChatRequest } from '../protocol/chat.js';
import { type CacheRecord, type CacheUseNote, holdsSnapshot } from '../rules/cache-state.js';
import { beginsWith, canonicalPrefix, missReason, prefixChain } from '../rules/prefix.js';
import type { MissClass } from '../telemetry/report.js';
import type { ServedModel } from './catalog.js';
import type { ChatGeneration } from './generation.js';

export type CacheStatus = 'hit' | 'miss' | 'pending' | 'expired' | 'error' | 'unknown';

/** What a client is told of the cache it named. */
export interface CacheOutcome {
  readonly status: CacheStatus;
  /** Printable ASCII; null for a hit. */
  readonly missReason: string | null;
  readonly missClass: MissClass | null;
  /** Only for a hit. */
  readonly hit: {
    readonly cacheId: string;
    readonly tokensSaved: number;
    readonly expiredAtS: number;
  } | null;
}

interface Verdict {
  readonly status: CacheStatus;
  readonly missReason: string | null;
  readonly missClass: MissClass | null;
  /** The chat begins with the cached prefix, whatever state the cache is in. */
  readonly matched: boolean;
}

/** @returns null for a missing cache in header mode. @throws ApiError in message mode, and 403 in both. */
export async function findCache(
  caches: Caches,
  owner: string,
  { name, mode }: CacheOptions,
): Promise<FoundCache | null> {
  if (name === null) return null;
  try {
    const found = await (name.type === 'id'
      ? caches.get(owner, name.id)
      : caches.resolveTag(owner, name.tag));
    if (mode === 'message') refuseFailed(found);
    return held(found);
  } catch (cause) {
    if (mode === 'header' && cause instanceof ApiError && cause.row === 'notFound') return null;
    throw cause;
  }
}

/** Reads the texts now: a cache that is deleted while its chat is counted must not fail the chat. */
function held({ record, texts }: FoundCache): FoundCache {
  const read = texts();
  return { record, texts: () => read, content: () => readCacheContent(read) };
}

/** In message mode a failed cache has no messages to put in place. */
function refuseFailed({ record }: FoundCache): void {
  if (record.status !== 'error') return;
  const reason = record.error?.message ?? 'unknown reason';
  throw invalid(`the cache ${record.id} has status 'error': ${reason}`, 'messages[0].content');
}

export interface CacheUseParts {
  readonly caches: Caches;
  readonly report: (fault: unknown) => void;
  readonly owner: string;
  readonly options: CacheOptions;
  readonly found: FoundCache | null;
  readonly request: ChatRequest;
  readonly model: ServedModel;
  /** Whether a prefix of this many tokens is prefilled on that model. On other models its first use evaluates it. */
  readonly prefills: (model: ServedModel, tokens: number) => boolean;
  /** Ids of the chat's whole prompt. */
  readonly ids: Uint32Array;
  /** When the request came, milliseconds since the Unix epoch. */
  readonly requestMs: number;
}

/** What the engine has said of a chat. */
type Engaged = Pick<ChatGeneration, 'started' | 'reusedTokens'>;

/** One chat's use of one cache, from the comparison to the note in the cache's record. */
export class CacheUse {
  readonly #parts: CacheUseParts;
  readonly #verdict: Verdict;
  /** The prefix to reuse; null where the chat runs without it. */
  readonly snapshot: SnapshotRef | null;

  static async open(parts: CacheUseParts): Promise<CacheUse> {
    const verdict = judge(parts);
    const { found, model, owner, ids } = parts;
    if (verdict.status !== 'hit' || found === null) return new CacheUse(parts, verdict, null);
    const prefix = await model.prompts.prefixIds(owner, found.content());
    if (prefix.length === 0 || !begins(ids, prefix)) {
      const missReason = 'the prompt of the chat does not begin with the tokens of the cache';
      return new CacheUse(parts, { ...missed('miss', 'content', missReason), matched: true }, null);
    }
    const snapshot = { name: found.record.hash, tokens: prefix.length };
    return new CacheUse(parts, verdict, snapshot);
  }

  private constructor(parts: CacheUseParts, verdict: Verdict, snapshot: SnapshotRef | null) {
    this.#parts = parts;
    this.#verdict = verdict;
    this.snapshot = snapshot;
  }

  /** How many messages of the chat the reused cache holds. */
  get prefixMessages(): number {
    return this.snapshot === null ? 0 : (this.#parts.found?.texts().messages.length ?? 0);
  }

  get dryRun(): boolean {
    return this.#parts.options.dryRun;
  }

  /** The same, after the engine has said whether it holds the prefix for this model. */
  async foreseen(): Promise<CacheOutcome> {
    const { model, owner, ids } = this.#parts;
    if (this.snapshot === null) return this.predicted();
    const { name, tokens } = this.snapshot;
    const task = { model: model.id, owner, prompt: ids.slice(0, tokens), snapshot: name };
    const held = (await model.inference.holds?.(task)) ?? true;
    return held ? this.predicted() : NOT_HELD;
  }

  /** The outcome that a run would have now if the engine holds what was prefilled. */
  predicted(): CacheOutcome {
    return this.outcome(this.snapshot?.tokens ?? 0);
  }

  /** What the client is told, once the engine has said what it reuses. */
  outcome(reusedTokens: number): CacheOutcome {
    const { status, missReason, missClass } = this.#verdict;
    const { found } = this.#parts;
    if (status !== 'hit' || found === null) return { status, missReason, missClass, hit: null };
    if (reusedTokens === 0) return NOT_REUSED;
    const expiredAtS = this.#newExpiryS() ?? found.record.expiredAtS;
    return {
      status,
      missReason,
      missClass,
      hit: { cacheId: found.record.id, tokensSaved: reusedTokens, expiredAtS },
    };
  }

  /** The owner's cache that would save this chat the most tokens, unless it is the named one. */
  nearest(): string | null {
    const { caches, owner, model, request, found } = this.#parts;
    const texts = canonicalPrefix(request.wireMessages, request.wireTools);
    const chain = prefixChain({ owner, family: model.family }, texts);
    const reused =
      this.#verdict.status === 'hit' && found !== null ? found.texts().messages.length : -1;
    const others = chain.slice(reused + 1).filter((hash) => hash !== found?.record.hash);
    return caches.nearest(others.reverse());
  }

  /**
   * Notes the chat's use in the cache's record.
   * @param succeeded the chat ended with 200, or its client left: then the expiry is set anew.
   */
  async settle(generation: Engaged, succeeded: boolean): Promise<void> {
    const { report, found, requestMs, options } = this.#parts;
    if (found === null || this.dryRun) return;
    const { hit, missReason } = this.outcome(generation.reusedTokens);
    const resets = succeeded && this.#verdict.matched && options.resetTtlS !== null;
    const reset = resets ? { requestMs, ttlS: options.resetTtlS } : null;
    const use = { tokensSaved: hit?.tokensSaved ?? 0, missReason, reset };
    // The chat has its answer: a record that cannot be written must not turn it into an error.
    await this.#note(found.record, use, generation).catch(report);
  }

  async #note(found: CacheRecord, use: CacheUseNote, generation: Engaged): Promise<void> {
    const { caches, model, prefills } = this.#parts;
    const record = await caches.use(found.id, use);
    if (this.snapshot === null) return;
    // The engine may have made the snapshot again for this chat after it was freed.
    if (record === null || !holdsSnapshot(record)) return await caches.snapshotLeft(found.hash);
    const lost = generation.started && generation.reusedTokens === 0;
    if (!lost || !prefills(model, this.snapshot.tokens)) return;
    await caches.snapshotLost(found.id, found.generation);
  }

  #newExpiryS(): number | null {
    const { options, requestMs } = this.#parts;
    if (options.resetTtlS === null || options.dryRun) return null;
    return Math.floor(requestMs / 1000) + options.resetTtlS;
  }
}

const NOT_REUSED: CacheOutcome = {
  status: 'miss',
  missReason: 'the engine could not reuse the prefix',
  missClass: 'engine',
  hit: null,
};

const NOT_HELD: CacheOutcome = {
  ...NOT_REUSED,
  missReason: 'the engine does not hold the prefix for this model: a chat would prefill it',
};

function judge({ found, options, request, model, owner }: CacheUseParts): Verdict {
  if (options.name === null) return missed('miss', 'unnamed', 'no cache was named');
  if (found === null) return missed('unknown', 'unknown', 'there is no such cache');
  const { record } = found;
  if (record.status === 'error') {
    return missed('error', 'failed', 'the cache could not be created');
  }
  if (record.family !== model.family) {
    return missed('miss', 'family', 'the model is not of the family of the cache');
  }
  const different = options.mode === 'header' ? difference(owner, request, found) : null;
  if (different !== null) return missed('miss', 'content', different);
  if (record.status === 'ready') {
    return { status: 'hit', missReason: null, missClass: null, matched: true };
  }
  const late =
    record.status === 'pending'
      ? missed('pending', 'pending', 'the cache is not ready yet')
      : missed('expired', 'expired', 'the cache has expired');
  return { ...late, matched: true };
}

function missed(status: CacheStatus, missClass: MissClass, missReason: string): Verdict {
  return { status, missReason, missClass, matched: false };
}

function difference(owner: string, request: ChatRequest, found: FoundCache): string | null {
  const { family, hash } = found.record;
  const texts = canonicalPrefix(request.wireMessages, request.wireTools);
  const cached = found.texts();
  const chain = prefixChain({ owner, family }, texts);
  if (beginsWith(chain, texts, hash, cached)) return null;
  return missReason(texts, cached) ?? 'the prefix has another hash';
}

function begins(ids: Uint32Array, prefix: Uint32Array): boolean {
  return prefix.length < ids.length && prefix.every((id, at) => id === ids[at]);
}
