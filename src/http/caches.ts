/**
 * Owns the routes of context caches: `/v1/caching` and `/v1/caching/{id}`.
 * It must never decide anything about a cache: it parses, asks, and writes down the answer.
 */
import type { Caches, FoundCache } from '../caches/caches.js';
import { ownBytes } from '../parsing/packing.js';
import type { Parser } from '../parsing/parser.js';
import { cacheDeleted, cacheHeadJson, cacheJson, cacheListJson } from '../protocol/caching.js';
import { parsePageQuery } from '../protocol/page-query.js';
import type { Exchange } from './exchange.js';
import type { Caller, Gate } from './gate.js';
import { type Route, route } from './router.js';

const caching = { api: 'caching' } as const;

export interface CacheParts {
  readonly caches: Caches;
  readonly parser: Parser;
}

export function cacheRoutes(gate: Gate, parts: CacheParts): Route[] {
  const { caches, parser } = parts;
  return [
    route(
      'POST',
      '/v1/caching',
      gate.guardFree(caching, (exchange, caller) => create(parts, exchange, caller)),
    ),
    route(
      'GET',
      '/v1/caching',
      gate.guardFree(caching, (exchange, caller) => list(parts, exchange, caller)),
    ),
    route(
      'GET',
      '/v1/caching/:id',
      gate.guardFree(caching, async (exchange, { user }, { id }) => {
        await replyCache(parts, exchange, await caches.get(user, id));
      }),
    ),
    route(
      'PUT',
      '/v1/caching/:id',
      gate.guardFree(caching, async (exchange, { user }, { id }) => {
        const update = await parser.update(user, await exchange.body());
        await replyCache(parts, exchange, await caches.update(user, id, update));
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

/** Small caches are written down here, large ones in a thread of their own, and these count until they are sent. */
export async function replyCache(
  { parser }: CacheParts,
  exchange: Exchange,
  { record, stored, texts }: FoundCache,
): Promise<void> {
  if (!parser.isFar(record.bytes)) {
    exchange.reply(200, cacheJson(record, texts()));
    return;
  }
  exchange.hold(record.bytes);
  const caches = [{ head: cacheHeadJson(record), stored: ownBytes(stored()) }];
  const { answer } = await parser.run(record.owner, 'show', { caches, isList: false });
  exchange.reply(200, answer);
}

async function create(parts: CacheParts, exchange: Exchange, { user }: Caller): Promise<void> {
  const creation = await parts.parser.create(user, await exchange.body());
  exchange.hold(creation.talk.heldBytes + creation.stored.byteLength);
  await replyCache(parts, exchange, await parts.caches.create(user, creation));
}

async function list(parts: CacheParts, exchange: Exchange, { user }: Caller): Promise<void> {
  const { caches, parser } = parts;
  const found = await caches.list(user, parsePageQuery(exchange.query));
  const bytes = found.reduce((sum, { record }) => sum + record.bytes, 0);
  if (!parser.isFar(bytes)) {
    exchange.reply(
      200,
      cacheListJson(found.map(({ record, texts }) => cacheJson(record, texts()))),
    );
    return;
  }
  exchange.hold(bytes);
  const page = found.map(({ record, stored }) => {
    return { head: cacheHeadJson(record), stored: ownBytes(stored()) };
  });
  const { answer } = await parser.run(user, 'show', { caches: page, isList: true });
  exchange.reply(200, answer);
}
