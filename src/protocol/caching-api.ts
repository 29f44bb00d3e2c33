/**
 * Owns the description of the cache and tag operations.
 * It must never say of a field what its schema does not say.
 */
import { type Operation, type Parameter, pathParameter, type Resource, withModels } from './api.js';
import { cacheDiffSchema } from './cache-diff.js';
import {
  cacheBodySchema,
  cacheDeletedSchema,
  cacheListSchema,
  cacheSchema,
  cacheUpdateSchema,
} from './caching.js';
import { pageParameters } from './page-query.js';
import { Type } from './schema.js';
import { tagBindSchema, tagDeletedSchema, tagListSchema, tagSchema } from './tags.js';

const JSON_TYPE = 'application/json';

const cacheId = pathParameter('id', 'Id of the cache.');
const tagName = pathParameter('tag', 'Name of the tag.');
const request = (schema: string, example: unknown) => ({
  type: JSON_TYPE,
  schema,
  examples: { plain: example },
});

interface Row {
  readonly method: Operation['method'];
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly request?: Operation['request'];
  /** What is answered, and the name of its schema. */
  readonly answer: readonly [description: string, schema: string];
  readonly errors: Operation['errors'];
}

const operation = (tag: string, { answer: [description, schema], ...row }: Row): Operation => {
  const media = [{ type: JSON_TYPE, schema }];
  const { request: body, ...rest } = row;
  const taken = body === undefined ? {} : { request: body };
  return { ...rest, ...taken, tag, secured: true, response: { description, media } };
};

const document = {
  model: 'svc-v1',
  messages: [{ role: 'system', content: 'You answer from this handbook: …' }],
  ttl: 600,
  tags: ['handbook'],
};

const cacheRows: readonly Row[] = [
  {
    method: 'post',
    path: '/v1/caching',
    id: 'createCache',
    summary: 'Keep messages and tools for reuse',
    description:
      'Answered with status `pending`. What makes the creation fail later is told by status `error` and its `error`. With `base` only what is new is evaluated.',
    request: request('CacheCreate', document),
    answer: ['The cache.', 'Cache'],
    errors: ['bodyTooLarge', 'otherUser', 'notFound'],
  },
  {
    method: 'get',
    path: '/v1/caching',
    id: 'listCaches',
    summary: 'List the caches',
    description: 'A page of large caches may hold fewer than `limit`; the last one is empty.',
    parameters: [
      ...pageParameters('cache'),
      {
        name: 'metadata',
        in: 'query',
        description: 'Pairs that a cache must have: `metadata[key]=value`.',
        schema: Type.Unsafe<object>({
          type: 'object',
          additionalProperties: { type: 'string' },
        }),
        style: 'deepObject',
      },
    ],
    answer: ['A page.', 'CacheList'],
    errors: ['otherUser'],
  },
  {
    method: 'get',
    path: '/v1/caching/{id}',
    id: 'getCache',
    summary: 'Get a cache',
    parameters: [cacheId],
    answer: ['The cache.', 'Cache'],
    errors: ['otherUser', 'notFound'],
  },
  {
    method: 'get',
    path: '/v1/caching/{id}/diff/{other}',
    id: 'diffCaches',
    summary: 'Compare two caches',
    description: 'Where their conversations part, and how many leading tokens they share.',
    parameters: [cacheId, pathParameter('other', 'Id of the other cache.')],
    answer: ['The first difference.', 'CacheDiff'],
    errors: ['otherUser', 'notFound'],
  },
  {
    method: 'put',
    path: '/v1/caching/{id}',
    id: 'updateCache',
    summary: 'Change metadata, expiry and pin',
    description: 'The status goes back to `pending`. Without a time the cache lives for one hour.',
    parameters: [cacheId],
    request: request('CacheUpdate', { ttl: 3600 }),
    answer: ['The cache.', 'Cache'],
    errors: ['otherUser', 'notFound', 'bodyTooLarge'],
  },
  {
    method: 'delete',
    path: '/v1/caching/{id}',
    id: 'deleteCache',
    summary: 'Delete a cache',
    description: 'Its tags stay; their content is a 404 until they are moved.',
    parameters: [cacheId],
    answer: ['It is deleted.', 'CacheDeleted'],
    errors: ['otherUser', 'notFound'],
  },
];

const TAGS = '/v1/caching/refs/tags';

const tagRows: readonly Row[] = [
  {
    method: 'post',
    path: TAGS,
    id: 'bindTag',
    summary: 'Bind a tag to a cache',
    description: 'An existing tag moves to this cache.',
    request: request('TagBind', { tag: 'handbook', cache_id: 'cache-0123456789abcdefghij' }),
    answer: ['The tag.', 'Tag'],
    errors: ['otherUser', 'notFound', 'bodyTooLarge'],
  },
  {
    method: 'get',
    path: TAGS,
    id: 'listTags',
    summary: 'List the tags',
    parameters: pageParameters('tag'),
    answer: ['A page.', 'TagList'],
    errors: [],
  },
  {
    method: 'get',
    path: `${TAGS}/{tag}`,
    id: 'getTag',
    summary: 'Get a tag',
    parameters: [tagName],
    answer: ['The tag.', 'Tag'],
    errors: ['notFound'],
  },
  {
    method: 'get',
    path: `${TAGS}/{tag}/content`,
    id: 'getTagContent',
    summary: 'Get the cache a tag points to',
    parameters: [tagName],
    answer: ['The cache.', 'Cache'],
    errors: ['notFound'],
  },
  {
    method: 'delete',
    path: `${TAGS}/{tag}`,
    id: 'deleteTag',
    summary: 'Delete a tag, whether or not it exists',
    parameters: [tagName],
    answer: ['It is gone.', 'TagDeleted'],
    errors: [],
  },
];

export function cacheResource(families: readonly string[]): Resource {
  return {
    tag: 'Caches',
    description: 'Messages and tools that later chats need not prefill.',
    schemas: {
      CacheCreate: withModels(
        cacheBodySchema,
        families,
        'A model family. Required without `base`, whose family it must be.',
      ),
      CacheUpdate: cacheUpdateSchema,
      Cache: cacheSchema,
      CacheList: cacheListSchema,
      CacheDeleted: cacheDeletedSchema,
      CacheDiff: cacheDiffSchema,
    },
    operations: cacheRows.map((row) => operation('Caches', row)),
  };
}

export const tagResource: Resource = {
  tag: 'Tags',
  description: 'Names for caches; a name can move from one cache to another.',
  schemas: {
    TagBind: tagBindSchema,
    Tag: tagSchema,
    TagList: tagListSchema,
    TagDeleted: tagDeletedSchema,
  },
  operations: tagRows.map((row) => operation('Tags', row)),
};
