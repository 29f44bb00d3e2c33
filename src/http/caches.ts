/**
 * Owns the routes of context caches: `/v1/caching` and `/v1/caching/{id}`.
 * It must never decide anything about a cache: it parses, asks, and writes down the answer.
 */
import type { Caches, FoundCache } from '../caches/caches.js';
import {
  cacheDeleted,
  cacheJson,
  cacheListJson,
  parseCacheCreate,
  parseCacheUpdate,
} from '../protocol/caching.js';
import { parseJson } from '../protocol/json.js';
import { parsePageQuery } from '../protocol/page-query.js';
import type { Exchange } from './exchange.js';
import type { Caller, Gate } from './gate.js';
import { type Route, route } from './router.js';

const caching = { api: 'caching' } as const;

export function cacheRoutes(gate: Gate, caches: Caches): Route[] {
  return [
    route(
      'POST',
      '/v1/caching',
      gate.guardFree(caching, (exchange, caller) => create(caches, exchange, caller)),
    ),
    route(
      'GET',
      '/v1/caching',
      gate.guardFree(caching, (exchange, caller) => list(caches, exchange, caller)),
    ),
    route(
      'GET',
      '/v1/caching/:id',
      gate.guardFree(caching, async (exchange, { user }, { id }) => {
        exchange.reply(200, json(await caches.get(user, id)));
      }),
    ),
    route(
      'PUT',
      '/v1/caching/:id',
      gate.guardFree(caching, async (exchange, { user }, { id }) => {
        const update = parseCacheUpdate(parseJson(await exchange.body()));
        exchange.reply(200, json(await caches.update(user, id, update)));
      }),
    ),
    route(
      'DELETE',
      '/v1/caching/:id',
      gate.guardFree(caching, async (exchange, { user }, { id }) => {
        await caches.delete(user, id);
        exchange.replyJson(200, cacheDeleted(id));
      }),
    ),
  ];
}

export function json({ record, texts }: FoundCache): string {
  return cacheJson(record, texts());
}

async function create(caches: Caches, exchange: Exchange, { user }: Caller): Promise<void> {
  const creation = parseCacheCreate(parseJson(await exchange.body()));
  exchange.reply(200, json(await caches.create(user, creation)));
}

async function list(caches: Caches, exchange: Exchange, { user }: Caller): Promise<void> {
  const found = await caches.list(user, parsePageQuery(exchange.query));
  exchange.reply(200, cacheListJson(found.map(json)));
}
