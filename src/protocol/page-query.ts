/**
 * Owns the parse of a list's query: page length, order, the bounds, and the metadata it asks for.
 * It must never know what is listed: the list itself checks whether a named bound exists.
 */
import { type ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Parameter } from './api.js';
import type { CacheMetadata } from './cache-metadata.js';
import { quoted } from './field.js';
import { type TSchema, Type } from './schema.js';

export interface PageQuery {
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  /** Excluded, like `before`. Both in the order of the list. */
  readonly after: string | null;
  readonly before: string | null;
  /** Every pair must be there. */
  readonly metadata: CacheMetadata;
}

const { pageLengthMax, pageLengthDefault, cacheMetadataMax } = limits;
const METADATA = /^metadata\[(.*)\]$/su;
const NAMES = ['limit', 'order', 'after', 'before'];
/**
 * Besides the fields of what is listed, what somebody writes who wants to see less: a key in brackets, a field that is
 * common elsewhere, a word for a search. Other fields are what gateways and browsers add to any request.
 */
const LIKE_FILTER = new RegExp(
  '[[\\]]|^meta|^(?:id|object|status|model|family|name|description|tokens?|messages|tools|error|ttl|tags?|cache_id|' +
    'owned_by|owner|user|filename|file|bytes|size|purpose|state|promoted|cache_control|(?:created|expired|expires)(?:_(?:at|after|before))?|' +
    'filters?|where|query|q|search|since|until)$',
  'i',
);

export interface PageKind {
  /** What is listed: the name of each of its fields looks like a filter. */
  readonly item: TSchema;
  /** The order where none is asked for. */
  readonly usual?: PageQuery['order'];
  /** False where the items have no metadata. */
  readonly metadata?: false;
  /** Fields that the list reads itself. */
  readonly others?: readonly string[];
  /** Fields that ask for more of each item, and make no list shorter. */
  readonly more?: readonly string[];
}

/**
 * @param query raw, without the question mark.
 * @throws ApiError for a value that is not allowed, or given twice, and for what looks like a filter and is none: if it
 *   were ignored, the list would show everything, and the client may be about to delete what is shown.
 */
export function parsePageQuery(query: string, kind: PageKind): PageQuery {
  const fields = readFields(query, kind);
  const metadata: (readonly [string, string])[] = [];
  for (const [name, value] of fields) {
    const key = METADATA.exec(name)?.[1];
    if (key !== undefined) metadata.push([key, value]);
  }
  if (metadata.length > cacheMetadataMax) {
    const text = `at most ${cacheMetadataMax} metadata pairs can be asked for, got ${metadata.length}`;
    throw invalid(text, 'metadata');
  }
  return {
    limit: readLimit(fields.get('limit')),
    order: readOrder(fields.get('order') ?? kind.usual ?? 'desc'),
    after: readBound('after', fields.get('after')),
    before: readBound('before', fields.get('before')),
    metadata,
  };
}

function readFields(query: string, kind: PageKind): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const names = [...NAMES, ...(kind.others ?? [])];
  for (const [name, value] of new URLSearchParams(query)) {
    if (kind.more?.includes(name)) continue;
    const known = names.includes(name) || (kind.metadata !== false && METADATA.test(name));
    if (!known && !isLikeFilter(name, kind.item)) continue;
    if (!known) throw unknownFilter(name, value, kind);
    if (fields.has(name)) throw invalid(`${quoted(name)} must be given once`, name);
    fields.set(name, value);
  }
  return fields;
}

function isLikeFilter(name: string, item: TSchema): boolean {
  const [field = ''] = name.toLowerCase().split('.', 1);
  return LIKE_FILTER.test(name) || hasField(item, field);
}

/** In any of its forms. */
function hasField(schema: Described, name: string): boolean {
  const { properties = {}, anyOf = [] } = schema;
  return Object.hasOwn(properties, name) || anyOf.some((form) => hasField(form, name));
}

interface Described {
  readonly properties?: object;
  readonly anyOf?: readonly Described[];
}

function unknownFilter(name: string, value: string, kind: PageKind): ApiError {
  const filters = [...(kind.others ?? []), ...(kind.metadata !== false ? ['metadata[key]'] : [])];
  const allowed = filters.length === 0 ? 'there are none' : `allowed is ${filters.join(', ')}`;
  const text = `${quoted(name)} is no filter of this list, got ${quoted(value)}: ${allowed}`;
  return invalid(text, name);
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return pageLengthDefault;
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= pageLengthMax) return limit;
  throw invalid(`limit must be an integer in [1, ${pageLengthMax}], got ${quoted(text)}`, 'limit');
}

function readOrder(text: string): PageQuery['order'] {
  if (text === 'desc' || text === 'asc') return text;
  throw invalid(`order must be one of 'asc', 'desc', got ${quoted(text)}`, 'order');
}

function readBound(name: string, text: string | undefined): string | null {
  if (text === '') throw invalid(`${name} must not be empty`, name);
  return text ?? null;
}

/** For the description of a list; `item` is what `after` and `before` name. */
export function pageParameters(
  item: string,
  by = '`created_at`',
  usual: PageQuery['order'] = 'desc',
): readonly Parameter[] {
  return [
    {
      name: 'limit',
      in: 'query',
      description: 'Items of a page at most.',
      schema: Type.Integer({ minimum: 1, maximum: pageLengthMax, default: pageLengthDefault }),
    },
    {
      name: 'order',
      in: 'query',
      description: `Order by ${by}.`,
      schema: Type.Enum(['asc', 'desc'], { default: usual }),
    },
    {
      name: 'after',
      in: 'query',
      description: `The page begins after this ${item}.`,
      schema: Type.String({ minLength: 1 }),
    },
    {
      name: 'before',
      in: 'query',
      description: `The page ends before this ${item}.`,
      schema: Type.String({ minLength: 1 }),
    },
  ];
}
