/**
 * Owns the admin routes of what a user keeps: caches and files, by size and state.
 * It must never show a message, a tool or a text of a document.
 */
import type { Caches } from '../../caches/caches.js';
import type { PrefixDoctor } from '../../chat/prefix-doctor.js';
import { loopTurns } from '../../fairness/loop-turns.js';
import type { Files } from '../../files/files.js';
import { limits } from '../../limits/index.js';
import {
  ownedCacheSchema,
  ownedFileSchema,
  pageJson,
  type WireOwnedCache,
  type WireOwnedFile,
} from '../../protocol/admin.js';
import { parseFileQuery } from '../../protocol/files.js';
import { type PageQuery, parsePageQuery } from '../../protocol/page-query.js';
import type { CacheRecord } from '../../rules/cache-state.js';
import { type FileRecord, fileDetails } from '../../rules/file-state.js';
import { adviceOf, adviceOfAll } from '../advice.js';
import { type Route, route } from '../router.js';
import type { AdminGate } from './gate.js';
import type { Users } from './users.js';

export interface AdminOwnedParts {
  readonly users: Pick<Users, 'assertKnown' | 'assertOwner'>;
  readonly caches: Pick<Caches, 'records' | 'recordsOfAll' | 'tags' | 'get' | 'update' | 'delete'>;
  readonly files: Pick<Files, 'list' | 'listOfAll'>;
  readonly doctor: PrefixDoctor;
}

const CACHE = '/admin/v1/users/:user/caches/:id';

export function adminOwnedRoutes(gate: AdminGate, parts: AdminOwnedParts): Route[] {
  const { users, caches } = parts;
  return [
    ...adminListsOfAll(gate, parts),
    ...listsOfOne(gate, parts),
    route(
      'POST',
      `${CACHE}/expire`,
      gate.guard(async (_exchange, { user, id }) => {
        await users.assertOwner(user);
        const cache = await expired(caches, user, id);
        return cacheJson(cache, tagsByCache(caches, user).get(id) ?? []);
      }),
    ),
    ...(['pin', 'unpin'] as const).map((verb) =>
      route(
        'POST',
        `${CACHE}/${verb}`,
        gate.guard(async (_exchange, { user, id }) => {
          await users.assertOwner(user);
          const change = { metadata: null, expiry: null, pin: verb === 'pin' };
          const { record } = await caches.update(user, id, change);
          return cacheJson(record, tagsByCache(caches, user).get(id) ?? []);
        }),
      ),
    ),
    route(
      'DELETE',
      CACHE,
      gate.guard(async (_exchange, { user, id }) => {
        await users.assertOwner(user);
        await caches.delete(user, id);
        return { object: 'context-cache.deleted', id, deleted: true };
      }),
    ),
  ];
}

export interface AdminAllParts {
  readonly caches: {
    readonly tags: Pick<Caches['tags'], 'list'>;
    recordsOfAll(query: PageQuery): Promise<CacheRecord[]>;
  };
  readonly files: Pick<Files, 'listOfAll'>;
  readonly doctor: PrefixDoctor;
}

export function adminListsOfAll(gate: AdminGate, parts: AdminAllParts): Route[] {
  const { caches, files, doctor } = parts;
  return [
    route(
      'GET',
      '/admin/v1/caches',
      gate.guard(({ query }) =>
        cachePage(
          caches,
          parsePageQuery(query, { item: ownedCacheSchema, metadata: false }),
          (more) => caches.recordsOfAll(more),
        ),
      ),
    ),
    route(
      'GET',
      '/admin/v1/files',
      gate.guard(async ({ query }) => {
        const page = await files.listOfAll(
          parsePageQuery(query, { item: ownedFileSchema, metadata: false }),
        );
        return pageJson(page.files.map(fileJson), page.hasMore);
      }),
    ),
    route(
      'GET',
      '/admin/v1/advice',
      gate.guard(async () => adviceOfAll(doctor)),
    ),
  ];
}

function listsOfOne(gate: AdminGate, parts: AdminOwnedParts): Route[] {
  const { users, caches, files, doctor } = parts;
  return [
    route(
      'GET',
      '/admin/v1/users/:user/caches',
      gate.guard(async ({ query }, { user }) => {
        await users.assertOwner(user);
        const list = (more: PageQuery) => caches.records(user, more);
        return await cachePage(caches, parsePageQuery(query, { item: ownedCacheSchema }), list);
      }),
    ),
    route(
      'GET',
      '/admin/v1/users/:user/files',
      gate.guard(async ({ query }, { user }) => {
        await users.assertOwner(user);
        const page = files.list(user, parseFileQuery(query));
        return pageJson(page.files.map(fileJson), page.hasMore);
      }),
    ),
    route(
      'GET',
      '/admin/v1/users/:user/advice',
      gate.guard(async (_exchange, { user }) => {
        await users.assertKnown(user);
        return adviceOf(doctor, user);
      }),
    ),
  ];
}

async function cachePage(
  caches: Pick<AdminAllParts['caches'], 'tags'>,
  query: PageQuery,
  list: (query: PageQuery) => Promise<CacheRecord[]>,
) {
  // One more than asked for tells whether there is another page.
  const found = await list({ ...query, limit: query.limit + 1 });
  const page = found.slice(0, query.limit);
  const tags = new Map<string, string[]>();
  for (const owner of new Set(page.map(({ owner }) => owner))) {
    for (const [id, names] of tagsByCache(caches, owner)) tags.set(id, names);
    await loopTurns.next('');
  }
  const shown = page.map((cache) => cacheJson(cache, tags.get(cache.id) ?? []));
  return pageJson(shown, found.length > query.limit);
}

/** One that is not live stays as it is. */
async function expired(
  caches: AdminOwnedParts['caches'],
  user: string,
  id: string,
): Promise<CacheRecord> {
  const { record } = await caches.get(user, id);
  if (record.status !== 'ready' && record.status !== 'pending') return record;
  const now = { metadata: null, expiry: { type: 'ttl', ttlS: 0 } } as const;
  return (await caches.update(user, id, now)).record;
}

/** Tags know their cache, and not the other way round. */
function tagsByCache(
  { tags }: Pick<AdminAllParts['caches'], 'tags'>,
  user: string,
): Map<string, string[]> {
  const byCache = new Map<string, string[]>();
  const query = {
    limit: limits.adminTagsMax,
    order: 'desc',
    after: null,
    before: null,
    metadata: [],
  } as const;
  for (const { tag, cacheId } of tags.list(user, query)) {
    byCache.set(cacheId, [...(byCache.get(cacheId) ?? []), tag]);
  }
  return byCache;
}

function cacheJson(cache: CacheRecord, tags: readonly string[]): WireOwnedCache {
  return {
    object: 'context-cache',
    id: cache.id,
    user: cache.owner,
    status: cache.status,
    created_at: cache.createdS,
    expired_at: cache.expiredAtS,
    tokens: cache.tokens,
    bytes: cache.bytes,
    model: cache.family,
    name: cache.name,
    tags: [...tags],
    hits: cache.hits,
    tokens_saved: cache.tokensSaved,
    last_miss_reason: cache.lastMissReason,
    error: cache.error && { ...cache.error },
    promoted: cache.promoted === true,
    base: cache.base ?? null,
    pin: cache.pin === true,
    pinned: cache.status === 'ready' && cache.snapshot?.pinned === true,
    snapshot_bytes: cache.snapshot?.bytes ?? null,
    evaluated_tokens: cache.snapshot?.evaluatedTokens ?? null,
  };
}

function fileJson(record: FileRecord): WireOwnedFile {
  const { id, owner, bytes, createdS, filename, progress } = record;
  return {
    object: 'file',
    id,
    user: owner,
    bytes,
    created_at: createdS,
    filename,
    // One that is kept as it is has nothing to wait for.
    status: progress.status === 'kept' ? 'ok' : progress.status,
    status_details: fileDetails(record),
  };
}
