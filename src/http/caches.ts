/**
 * Owns the routes of context caches: `/v1/caching` and `/v1/caching/{id}`.
 * It must never decide anything about a cache: it parses, asks, and writes down the answer.
 */
import { setImmediate } from 'node:timers/promises';
import type { Caches, FoundCache } from '../caches/caches.js';
import type { Parser } from '../parsing/parser.js';
import { type OwnBytes, ownBytes } from '../pool/memory.js';
import { cacheDiffJson } from '../protocol/cache-diff.js';
import {
  cacheDeleted,
  cacheHeadJson,
  cacheJson,
  cacheListJson,
  parseCacheQuery,
} from '../protocol/caching.js';
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
      'GET',
      '/v1/caching/:id/diff/:other',
      gate.guardFree(caching, async (exchange, { user }, { id, other }) => {
        // Both are copied for a thread.
        const hold = (bytes: number) => holdFar(parts, exchange, 2 * bytes);
        exchange.replyJson(200, cacheDiffJson(await caches.diff(user, id, other, hold)));
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

/**
 * Small caches are written down here, large ones in a thread of their own, and these count until they are sent. What was
 * just stored is on the disk by now, and moves to the thread.
 */
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
  replyLarge(exchange, answer);
}

/** It counts by itself until it is sent. */
function replyLarge(exchange: Exchange, json: OwnBytes): void {
  exchange.hold(0);
  exchange.reply(200, json);
}

/** Counts what a thread will need, before any of it is read. @throws ApiError where there is no room. */
function holdFar({ parser }: CacheParts, exchange: Exchange, bytes: number): void {
  if (parser.isFar(bytes)) exchange.holdMore(bytes);
}

async function create(parts: CacheParts, exchange: Exchange, { user }: Caller): Promise<void> {
  const find = async (name: string) => {
    const base = await parts.caches.base(user, name);
    // Its conversation, the prompt of that, and what is stored: what is begun has room to end.
    holdFar(parts, exchange, 3 * base.bytes);
    return base;
  };
  const creation = await parts.parser.create(user, await exchange.body(), find);
  const { talk, stored } = creation;
  let found: FoundCache;
  try {
    exchange.hold(talk.heldBytes + stored.byteLength);
    found = await parts.caches.create(user, creation);
  } finally {
    talk.free();
  }
  await replyCache(parts, exchange, found);
}

async function list(parts: CacheParts, exchange: Exchange, { user }: Caller): Promise<void> {
  const { caches, parser } = parts;
  let bytes = 0;
  const found = await caches.list(user, parseCacheQuery(exchange.query), (page) => {
    bytes = page;
    // What is read, and what a thread writes down of it.
    if (parser.isFar(bytes)) exchange.hold(2 * bytes);
  });
  if (!parser.isFar(bytes)) {
    exchange.reply(
      200,
      cacheListJson(found.map(({ record, texts }) => cacheJson(record, texts()))),
    );
    return;
  }
  const page: { head: string; stored: OwnBytes }[] = [];
  // Each is let go of once it is in memory that can be moved.
  for (let next = found.shift(); next !== undefined; next = found.shift()) {
    const { record, stored } = next;
    page.push({ head: cacheHeadJson(record), stored: ownBytes(stored()) });
    if (parser.isFar(record.bytes)) await setImmediate();
  }
  const { answer } = await parser.run(user, 'show', { caches: page, isList: true });
  replyLarge(exchange, answer);
}
