/**
 * Owns the bound on the tokens of one owner's live caches: how they are counted, and the refusal beyond it.
 * It must never count a cache that has expired or failed: nobody can reuse it.
 */
import { type Held, Quota, type Reservation } from '../actors/quota.js';
import { decodeWhole } from '../codec.js';
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { type CacheRecord, type CacheState, holdsSnapshot } from '../rules/cache-state.js';
import { scanWithPauses } from '../store/scan.js';
import type { Store } from '../store/store.js';
import { cacheKeys, idOf } from './records.js';

export interface CacheTokensParts {
  readonly store: Store;
  readonly tokensMax?: (owner: string) => number;
}

export class CacheTokens {
  readonly #quota: Quota;
  readonly #tokensMax: (owner: string) => number;

  constructor({ store, tokensMax = () => limits.accountCachedTokensDefault }: CacheTokensParts) {
    this.#tokensMax = tokensMax;
    this.#quota = new Quota({
      held: (owner) => liveBy(store, owner),
      max: (owner) => ({ count: Number.POSITIVE_INFINITY, bytes: tokensMax(owner) }),
      refusal,
    });
  }

  /** @throws ApiError when the owner's live caches would exceed their bound. */
  reserve(owner: string, tokens: number): Promise<Reservation> {
    return this.#quota.reserve(owner, tokens);
  }

  /** Whether half of the bound is free with these tokens. */
  async leavesHalf(owner: string, tokens: number): Promise<boolean> {
    const { bytes } = await this.#quota.held(owner);
    return bytes + tokens <= this.#tokensMax(owner) / 2;
  }

  /** To be awaited before a cache stops being live. */
  counted(owner: string): Promise<void> {
    return this.#quota.counted(owner);
  }

  /** Releases the tokens of a cache that is no longer live. */
  release(owner: string, tokens: number): void {
    this.#quota.release(owner, tokens);
  }

  /**
   * Calls `act`, which may make an expired cache live again. Without room for its tokens it calls `instead`.
   * @throws ApiError as `reserve`, where there is no `instead`; then nothing was called.
   */
  async reviving(
    before: CacheRecord,
    act: () => Promise<CacheState>,
    instead: () => Promise<CacheState> = act,
  ): Promise<CacheState> {
    if (holdsSnapshot(before) || before.contentFault !== null) return await act();
    let place: Reservation;
    try {
      place = await this.reserve(before.owner, before.tokens);
    } catch (cause) {
      if (instead === act || !isRefusal(cause)) throw cause;
      return await instead();
    }
    let after: CacheState = null;
    try {
      after = await act();
      return after;
    } finally {
      // Another request may have made it live first: then its tokens are counted already.
      const revived = after !== null && holdsSnapshot(after);
      if (revived && after?.generation === before.generation + 1) place.kept();
      else place.giveBack();
    }
  }
}

function isRefusal(cause: unknown): boolean {
  return cause instanceof ApiError && cause.extra.code === CODE;
}

const CODE = 'cached_tokens_exceeded';

async function liveBy(store: Store, owner: string): Promise<Held> {
  const live = { count: 0, bytes: 0 };
  for await (const entry of scanWithPauses(store, { prefix: cacheKeys.owned(owner), owner })) {
    const saved = store.get(cacheKeys.record(idOf(entry)));
    const record = saved && decodeWhole<CacheRecord>(saved.value);
    if (record === null || !holdsSnapshot(record)) continue;
    live.count += 1;
    live.bytes += record.tokens;
  }
  return live;
}

function refusal(_over: 'count' | 'bytes', max: Held): ApiError {
  const text = `all your live caches together must have at most ${max.bytes} tokens: delete some, or let them expire`;
  const { values } = invalid(text);
  return new ApiError('invalidRequest', values, { code: CODE });
}
