/**
 * Owns the context caches: one actor a cache, the requests that reach it, and how a cache is found.
 * It must never show a cache to anybody but its owner, nor report `ready` before the prefix is prefilled.
 */

import type { Quota } from '../actors/quota.js';
import { Registry } from '../actors/registry.js';
import { checkRecord, decodeRecord } from '../codec.js';
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { NewCache } from '../parsing/parser.js';
import { cacheIdOf, isCacheId } from '../protocol/cache-id.js';
import type { CacheUpdate } from '../protocol/caching.js';
import { quoted } from '../protocol/field.js';
import { ItemIds } from '../protocol/item-id.js';
import type { PageQuery } from '../protocol/page-query.js';
import type { TagRecord } from '../protocol/tags.js';
import {
  age,
  type CacheEffect,
  type CacheRecord,
  type CacheState,
  type CacheUseNote,
  cacheTransition,
  holdsSnapshot,
} from '../rules/cache-state.js';
import type { PrefixHash } from '../rules/prefix.js';
import { Damage } from '../store/damage.js';
import type { Store, StoreChange } from '../store/store.js';
import { cacheEffects } from './effects.js';
import { closedFamily, contentFaultOf, notFound, unknownFamily } from './faults.js';
import { listCaches } from './list.js';
import { type CacheActorMessage, cacheLogic } from './logic.js';
import { type CachesParts, type FoundCache, found } from './parts.js';
import { cacheQuota, cacheQuotaMax } from './quota.js';
import { cacheKeys, constantChanges, idOf } from './records.js';
import { type PrefillTask, SnapshotKeeper } from './snapshots.js';
import { CacheSweeper } from './sweeper.js';
import { Tags } from './tags.js';
import { CacheTokens } from './tokens.js';

export type { CachesParts, FoundCache } from './parts.js';

type CacheRegistry = Registry<CacheState, CacheRecord, CacheActorMessage, CacheState, CacheEffect>;

/** Everything a new cache is made from. */
interface NewCacheParts {
  readonly owner: string;
  readonly id: string;
  readonly creation: NewCache;
  readonly requestMs: number;
}

export class Caches {
  readonly tags: Tags;
  readonly #parts: CachesParts;
  readonly #keepMs: number;
  readonly #registry: CacheRegistry;
  readonly #snapshots: SnapshotKeeper;
  readonly #sweeper: CacheSweeper;
  readonly #quota: Quota;
  readonly #tokens: CacheTokens;
  readonly #ids: ItemIds;
  readonly #damage: Damage;

  constructor(parts: CachesParts) {
    const { store, clock, report, prefiller } = parts;
    const { keepMs = limits.cacheKeepMs, quotaMax = cacheQuotaMax } = parts;
    this.#parts = parts;
    this.#keepMs = keepMs;
    this.#ids = new ItemIds(parts.newBytes);
    this.#damage = new Damage(report);
    const { tagsMax = () => limits.accountTagsDefault } = parts;
    this.tags = new Tags({ store, clock, report, max: tagsMax });
    this.#quota = cacheQuota(store, quotaMax);
    this.#tokens = new CacheTokens(parts);
    const task = (id: string) => this.#prefillTask(id);
    this.#snapshots = new SnapshotKeeper({ store, clock, prefiller, task });
    const runEffect = cacheEffects({
      read: (id) => this.#read(id),
      snapshots: this.#snapshots,
      quota: this.#quota,
      tokens: this.#tokens,
    });
    this.#registry = new Registry({ logic: cacheLogic(keepMs), store, clock, report, runEffect });
    this.#sweeper = new CacheSweeper({
      store,
      clock,
      report,
      keepMs,
      touch: (id) => this.#touch(id),
      forget: (hash) => this.#snapshots.forget(hash),
      busy: () => this.#snapshots.full(null),
    });
  }

  /** Resumes the work that the last run left: pending caches, bytes to free, caches that expired meanwhile. */
  start(): Promise<void> {
    return this.#sweeper.start();
  }

  /** @throws ApiError for an invalid request. A cache that can only fail is created, and its status says so. */
  async create(owner: string, creation: NewCache): Promise<FoundCache> {
    const { clock, families, isOpen } = this.#parts;
    const requestMs = clock.nowMs();
    const { family, stored } = creation;
    if (!families.includes(family)) throw unknownFamily(family, families);
    if (!isOpen(owner, family)) throw closedFamily(family);
    if (this.#snapshots.full(owner)) throw new ApiError('overloaded');
    const id = cacheIdOf(this.#ids.next(owner, requestMs));
    const places = [await this.#quota.reserve(owner, stored.length)];
    const hold = async (tokens: number) => {
      places.push(await this.#tokens.reserve(owner, tokens));
    };
    try {
      const record = await this.#begin({ owner, id, creation, requestMs }, hold);
      return found(record, () => stored);
    } catch (cause) {
      // A write that reported an error may still have happened.
      if (this.#read(id) === null) for (const place of places) place.giveBack();
      throw cause;
    } finally {
      for (const place of places) place.kept();
    }
  }

  /** Counts the tokens, then asks the cache's actor to begin. Durable when it resolves. @param hold reserves the tokens. */
  async #begin(
    { owner, id, creation, requestMs }: NewCacheParts,
    hold: (tokens: number) => Promise<void>,
  ): Promise<CacheRecord> {
    const { countTokens, review } = this.#parts;
    const { family, talk, stored, tags } = creation;
    const hash = creation.hashFor(owner);
    const tokens = await countTokens(owner, family, talk);
    const contentFault = await contentFaultOf(creation, tokens, review);
    const bytes = stored.length;
    const cache = { ...picked(creation), id, owner, hash, tokens, bytes, contentFault };
    const message = { type: 'create', cache, requestMs } as const;
    // The actor will decide the same: this tells now whether the cache can only end in `error`.
    const { reply: draft } = cacheTransition(null, message, requestMs);
    if (draft === null) throw new ApiError('server', { error: `the cache ${id} was not made` });
    const constant = constantChanges(draft, stored);
    const begin = (moved: readonly StoreChange[]) =>
      this.#ask(id, { ...message, changes: [...constant, ...moved] });
    if (!holdsSnapshot(draft)) {
      await begin([]);
      return draft;
    }
    await hold(tokens);
    if (tags.length === 0) await begin([]);
    else await this.tags.move(owner, tags, id, async (moved) => (await begin(moved)) !== null);
    return draft;
  }

  /** @throws ApiError `notFound`, or `otherUser` for a live cache of somebody else. */
  async get(owner: string, id: string): Promise<FoundCache> {
    const record = await this.#current(id);
    if (record === null) throw notFound(id);
    if (record.owner !== owner) throw new ApiError('otherUser');
    return found(record, () => this.#stored(id));
  }

  /** A page with large bodies is shorter, but holds at least one item where there is one. */
  async list(owner: string, query: PageQuery): Promise<FoundCache[]> {
    const records = await this.records(owner, query, limits.pageBytesMax);
    // A cache that is deleted meanwhile is left out.
    return records.flatMap((record) => {
      const { id } = record;
      const body = this.#damage.without(`cache-body ${id}`, () => {
        const saved = this.#parts.store.get(cacheKeys.body(id));
        // What is damaged is found here, and not in the thread that writes the page down.
        if (saved !== null) checkRecord(saved.value);
        return saved;
      });
      return body === null ? [] : [found(record, () => body.value)];
    });
  }

  /** The page without the bodies. */
  records(owner: string, query: PageQuery, bytesMax = Infinity): Promise<CacheRecord[]> {
    const source = {
      page: (range: Parameters<Store['page']>[0]) => this.#parts.store.page(range),
      read: (id: string) => this.#damage.without(`cache ${id}`, () => this.#read(id)),
      current: async (id: string) => {
        try {
          return await this.#current(id);
        } catch (cause) {
          this.#damage.tell(`cache ${id}`, cause);
          return null;
        }
      },
    };
    return listCaches(owner, query, source, bytesMax);
  }

  /** @throws ApiError as `get`, and for an expiry too far ahead. */
  async update(owner: string, id: string, update: CacheUpdate): Promise<FoundCache> {
    const { record: before } = await this.get(owner, id);
    const act = () => this.#ask(id, { type: 'update', ...update });
    const record = await this.#tokens.reviving(before, act);
    if (record === null) throw notFound(id);
    return found(record, () => this.#stored(id));
  }

  /** @throws ApiError as `get`. */
  async delete(owner: string, id: string): Promise<void> {
    await this.get(owner, id);
    if ((await this.#ask(id, { type: 'delete' })) === null) throw notFound(id);
  }

  /** @throws ApiError as `get`, and for a cache in status `error`. */
  async bindTag(owner: string, tag: string, cacheId: string): Promise<TagRecord> {
    const { record } = await this.get(owner, cacheId);
    if (record.status === 'error') {
      throw invalid(
        `cache_id must name a cache that is not in status 'error', got ${quoted(cacheId)}`,
        'cache_id',
      );
    }
    const [bound] = await this.tags.move(owner, [tag], cacheId);
    return bound as TagRecord;
  }

  /** @throws ApiError `notFound` for the tag, or for the cache it points to. */
  resolveTag(owner: string, tag: string): Promise<FoundCache> {
    return this.get(owner, this.tags.get(owner, tag).cacheId);
  }

  /** Records how a chat used the cache. Durable when it resolves, if the expiry was reset. */
  async use(id: string, use: CacheUseNote): Promise<CacheRecord | null> {
    const before = await this.#current(id);
    if (before === null) return null;
    const tell = async (told: CacheUseNote) =>
      await this.#registry.askUnbounded(id, { type: 'use', use: told });
    if (use.reset === null) return await tell(use);
    // Without room among the live caches it stays expired; the chat itself is not affected.
    const stay = () => tell({ ...use, reset: null });
    return await this.#tokens.reviving(before, () => tell(use), stay);
  }

  /** The snapshot of a `ready` cache is missing: the prefix is prefilled again. */
  async snapshotLost(id: string, generation: number): Promise<void> {
    if (this.#read(id) !== null) await this.#ask(id, { type: 'snapshot-lost', generation });
  }

  /** A chat that used the snapshot of this prefix has ended; its cache may be gone by now. */
  async snapshotLeft(hash: PrefixHash): Promise<void> {
    await this.#snapshots.leave(hash);
  }

  /** @param hashes of prefixes, the longest first. @returns the first live cache that has one of them. */
  nearest(hashes: readonly PrefixHash[]): string | null {
    for (const hash of hashes) {
      const [entry] = this.#parts.store.page({ prefix: cacheKeys.snapshot(hash), limit: 1 });
      if (entry) return idOf(entry);
    }
    return null;
  }

  async close(): Promise<void> {
    this.#sweeper.stop();
    this.#snapshots.close();
    await this.#registry.close();
    await this.tags.close();
  }

  /** The record as stored. A malformed id never reaches the store or a registry. */
  #read(id: string): CacheRecord | null {
    const record = isCacheId(id) ? this.#parts.store.get(cacheKeys.record(id)) : null;
    return record === null ? null : decodeRecord<CacheRecord>(record.value);
  }

  /** The current state: an expiry that is due is written first. */
  async #current(id: string): Promise<CacheState> {
    const record = this.#read(id);
    const aged = age(record, this.#parts.clock.nowMs(), this.#keepMs);
    return aged === record ? record : await this.#ask(id, { type: 'read' });
  }

  /** Told once, however often somebody comes by. */
  async #touch(id: string): Promise<CacheState> {
    this.#damage.without(`cache ${id}`, () => this.#read(id));
    return await this.#ask(id, { type: 'read' });
  }

  async #ask(id: string, message: CacheActorMessage): Promise<CacheState> {
    return await this.#registry.ask(id, message);
  }

  #stored(id: string): Uint8Array {
    const body = this.#parts.store.get(cacheKeys.body(id));
    if (body === null) throw notFound(id);
    return body.value;
  }

  #prefillTask(id: string): PrefillTask {
    const record = this.#read(id);
    if (record === null) throw notFound(id);
    const { owner, family, hash, tokens } = record;
    return { owner, family, snapshot: hash, tokens, stored: this.#stored(id) };
  }
}

function picked({ family, name, description, metadata, expiry }: NewCache) {
  return { family, name, description, metadata, expiry };
}
