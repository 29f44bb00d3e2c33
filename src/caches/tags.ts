/**
 * Owns the tags: one actor an owner, the only writer of that owner's tags.
 * It must never move a tag apart from the record that changes with it: one commit holds both, or neither happens.
 */

import type { Commit, Decision, Logic } from '../actors/actor.js';
import { Registry } from '../actors/registry.js';
import type { Clock } from '../clock.js';
import { decodeRecord, encodeRecord } from '../codec.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { PageQuery } from '../protocol/page-query.js';
import { isTagName, type TagRecord } from '../protocol/tags.js';
import { pageRange } from '../rules/paging.js';
import type { Store, StoreChange, StoreEntry, StoreKey } from '../store/store.js';

export interface TagsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly report: (fault: unknown) => void;
}

/** Tags are records of their own that only this actor writes; the actor keeps none of them in memory. */
interface TagsState {
  readonly owner: string;
}

type TagsMessage =
  | {
      readonly type: 'move';
      readonly tags: readonly string[];
      readonly cacheId: string;
    }
  | { readonly type: 'remove'; readonly tag: string };

type Reply = readonly TagRecord[];

export class Tags {
  readonly #store: Store;
  readonly #registry: Registry<TagsState, never, TagsMessage, Reply, never>;

  constructor(parts: TagsParts) {
    this.#store = parts.store;
    this.#registry = new Registry({
      ...parts,
      logic: tagsLogic(parts.store),
      runEffect: async () => null,
    });
  }

  /**
   * Binds all these tags to the cache. Durable when it resolves.
   * @param commit of another actor, whose record changes in the same transaction.
   */
  async move(
    owner: string,
    tags: readonly string[],
    cacheId: string,
    commit?: Commit,
  ): Promise<Reply> {
    return await this.#registry.ask(owner, { type: 'move', tags, cacheId }, commit);
  }

  /** Removes the tag, if there is one. Durable when it resolves. */
  async remove(owner: string, tag: string): Promise<void> {
    if (find(this.#store, owner, tag) === null) return;
    await this.#registry.ask(owner, { type: 'remove', tag });
  }

  /** @throws ApiError `notFound`: names belong to an owner, so another's tag is unknown too. */
  get(owner: string, tag: string): TagRecord {
    const found = find(this.#store, owner, tag);
    if (found !== null) return found;
    const id = tag.slice(0, limits.tagNameLengthMax);
    throw new ApiError('notFound', { kind: 'tag', id }, { param: 'tag' });
  }

  /** @throws ApiError for a `before` or `after` that is no tag of the owner. */
  list(owner: string, query: PageQuery): TagRecord[] {
    const prefix = tagKeys.byTime(owner);
    const { lower, upper, reverse } = pageRange(query, (tag) => {
      const found = find(this.#store, owner, tag);
      return found === null ? null : [...prefix, found.createdS, tag];
    });
    const range = { prefix, reverse, limit: query.limit };
    const after = lower === null ? {} : { after: lower };
    const before = upper === null ? {} : { before: upper };
    const entries = this.#store.page({ ...range, ...after, ...before });
    return entries.flatMap((entry) => find(this.#store, owner, nameOf(entry)) ?? []);
  }

  close(): Promise<void> {
    return this.#registry.close();
  }
}

const EMPTY = new Uint8Array(0);

export const tagKeys = {
  owned: (owner: string): StoreKey => ['tag', owner],
  tag: (owner: string, tag: string): StoreKey => ['tag', owner, tag],
  byTime: (owner: string): StoreKey => ['tag-by-time', owner],
};

function nameOf({ key }: StoreEntry): string {
  return String(key.at(-1));
}

function find(store: Store, owner: string, tag: string): TagRecord | null {
  // A text that is no valid tag may be too long for a key.
  const record = isTagName(tag) ? store.get(tagKeys.tag(owner, tag)) : null;
  return record === null ? null : decodeRecord<TagRecord>(record.value);
}

function tagsLogic(store: Store): Logic<TagsState, never, TagsMessage, Reply, never> {
  return {
    key: (owner) => ['tags', owner],
    restore: (_saved, owner) => ({ owner }),
    saved: () => null,
    indexChanges: () => [],
    transition: (state, message, nowMs) =>
      message.type === 'move'
        ? moved(state, message, nowMs, store)
        : removed(state, message.tag, store),
    resume: () => [],
    evictable: () => true,
  };
}

function moved(
  state: TagsState,
  { tags, cacheId }: Extract<TagsMessage, { type: 'move' }>,
  nowMs: number,
  store: Store,
): Decision<TagsState, Reply, never> {
  const records = tags.map((tag) => {
    const createdS = find(store, state.owner, tag)?.createdS ?? Math.floor(nowMs / 1000);
    return { tag, cacheId, owner: state.owner, createdS };
  });
  const changes = records.flatMap(tagChanges);
  return { next: state, reply: records, save: 'now', effects: [], changes };
}

/** All changes of one tag. */
export function tagChanges(record: TagRecord): readonly StoreChange[] {
  const { owner, tag, createdS } = record;
  return [
    { type: 'put', key: tagKeys.tag(owner, tag), value: encodeRecord(record) },
    { type: 'put', key: [...tagKeys.byTime(owner), createdS, tag], value: EMPTY },
  ];
}

function removed(state: TagsState, tag: string, store: Store): Decision<TagsState, Reply, never> {
  const record = find(store, state.owner, tag);
  if (record === null) return { next: state, reply: [], save: 'no', effects: [] };
  const changes: readonly StoreChange[] = [
    { type: 'remove', key: tagKeys.tag(state.owner, tag) },
    { type: 'remove', key: [...tagKeys.byTime(state.owner), record.createdS, tag] },
  ];
  return { next: state, reply: [record], save: 'now', effects: [], changes };
}
