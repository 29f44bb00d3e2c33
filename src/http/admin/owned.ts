/**
 * Owns the admin routes of what a user keeps: caches and files, by size and state.
 * It must never show a message, a tool or a text of a document.
 */
import type { Caches } from '../../caches/caches.js';
import type { Files } from '../../files/files.js';
import { limits } from '../../limits/index.js';
import { pageJson, type WireOwnedCache, type WireOwnedFile } from '../../protocol/admin.js';
import { parseFileQuery } from '../../protocol/files.js';
import { parsePageQuery } from '../../protocol/page-query.js';
import type { CacheRecord } from '../../rules/cache-state.js';
import type { FileRecord } from '../../rules/file-state.js';
import { type Route, route } from '../router.js';
import type { AdminGate } from './gate.js';
import type { Users } from './users.js';

export interface AdminOwnedParts {
  readonly users: Pick<Users, 'assertKnown'>;
  readonly caches: Pick<Caches, 'records' | 'tags'>;
  readonly files: Pick<Files, 'list'>;
}

export function adminOwnedRoutes(gate: AdminGate, parts: AdminOwnedParts): Route[] {
  const { users, caches, files } = parts;
  return [
    route(
      'GET',
      '/admin/v1/users/:user/caches',
      gate.guard(async (exchange, { user }) => {
        await users.assertKnown(user);
        const query = parsePageQuery(exchange.query);
        // One more than asked for tells whether there is another page.
        const found = await caches.records(user, { ...query, limit: query.limit + 1 });
        const page = found.slice(0, query.limit);
        const tags = tagsByCache(caches, user);
        const shown = page.map((cache) => cacheJson(cache, tags.get(cache.id) ?? []));
        return pageJson(shown, found.length > query.limit);
      }),
    ),
    route(
      'GET',
      '/admin/v1/users/:user/files',
      gate.guard(async (exchange, { user }) => {
        await users.assertKnown(user);
        const page = files.list(user, parseFileQuery(exchange.query));
        return pageJson(page.files.map(fileJson), page.hasMore);
      }),
    ),
  ];
}

/** Tags know their cache, and not the other way round. */
function tagsByCache(caches: AdminOwnedParts['caches'], user: string): Map<string, string[]> {
  const byCache = new Map<string, string[]>();
  const query = {
    limit: limits.adminTagsMax,
    order: 'desc',
    after: null,
    before: null,
    metadata: [],
  } as const;
  for (const { tag, cacheId } of caches.tags.list(user, query)) {
    byCache.set(cacheId, [...(byCache.get(cacheId) ?? []), tag]);
  }
  return byCache;
}

function cacheJson(cache: CacheRecord, tags: readonly string[]): WireOwnedCache {
  return {
    object: 'context-cache',
    id: cache.id,
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
  };
}

function fileJson({ id, bytes, createdS, filename, progress }: FileRecord): WireOwnedFile {
  return {
    object: 'file',
    id,
    bytes,
    created_at: createdS,
    filename,
    status: progress.status,
    status_details: progress.status === 'error' ? progress.reason : '',
  };
}
