/**
 * Owns the routes of tags: `/v1/caching/refs/tags` and what is below.
 * It must never decide anything about a tag: it parses, asks, and writes down the answer.
 */
import type { Caches } from '../caches/caches.js';
import { parseJson } from '../protocol/json.js';
import { parsePageQuery } from '../protocol/page-query.js';
import { parseTagBind, tag, tagDeleted, tagList } from '../protocol/tags.js';
import { json } from './caches.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

const PATH = '/v1/caching/refs/tags';
const caching = { api: 'caching' } as const;

export function tagRoutes(gate: Gate, caches: Caches): Route[] {
  return [
    route(
      'POST',
      PATH,
      gate.guardFree(caching, async (exchange, { user }) => {
        const bind = parseTagBind(parseJson(await exchange.body()));
        exchange.replyJson(200, tag(await caches.bindTag(user, bind.tag, bind.cacheId)));
      }),
    ),
    route(
      'GET',
      PATH,
      gate.guardFree(caching, async (exchange, { user }) => {
        exchange.replyJson(
          200,
          tagList(caches.tags.list(user, parsePageQuery(exchange.query, { metadata: false }))),
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
        exchange.reply(200, json(await caches.resolveTag(user, params.tag)));
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
