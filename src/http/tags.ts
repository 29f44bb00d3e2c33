/**
 * Owns the routes of tags: `/v1/caching/refs/tags` and what is below.
 * It must never decide anything about a tag: it parses, asks, and writes down the answer.
 */
import { parsePageQuery } from '../protocol/page-query.js';
import { tag, tagDeleted, tagList, tagSchema } from '../protocol/tags.js';
import { type CacheParts, replyCache } from './caches.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

const PATH = '/v1/caching/refs/tags';
const caching = { api: 'caching' } as const;

export function tagRoutes(gate: Gate, parts: CacheParts): Route[] {
  const { caches, parser } = parts;
  return [
    route(
      'POST',
      PATH,
      gate.guardFree(caching, async (exchange, { user }) => {
        const bind = await parser.tag(user, await exchange.body());
        exchange.replyJson(200, tag(await caches.bindTag(user, bind.tag, bind.cacheId)));
      }),
    ),
    route(
      'GET',
      PATH,
      gate.guardFree(caching, async (exchange, { user }) => {
        exchange.replyJson(
          200,
          tagList(
            caches.tags.list(
              user,
              parsePageQuery(exchange.query, { item: tagSchema, metadata: false }),
            ),
          ),
        );
      }),
    ),
    route(
      'GET',
      `${PATH}/:tag`,
      gate.guardFree(caching, async (exchange, { user }, params) => {
        exchange.replyJson(200, tag(caches.tags.get(user, params.tag)));
      }),
    ),
    route(
      'GET',
      `${PATH}/:tag/content`,
      gate.guardFree(caching, async (exchange, { user }, params) => {
        await replyCache(parts, exchange, await caches.resolveTag(user, params.tag));
      }),
    ),
    route(
      'DELETE',
      `${PATH}/:tag`,
      gate.guardFree(caching, async (exchange, { user }, params) => {
        await caches.tags.remove(user, params.tag);
        exchange.replyJson(200, tagDeleted(params.tag));
      }),
    ),
  ];
}
