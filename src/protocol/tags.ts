/**
 * Owns the wire shapes of tags and the rule of their names.
 * It must never know what cache a tag leads to.
 */
import { limits } from '../limits/index.js';
import { refuse } from './chat-faults.js';
import { compile, type Static, Type } from './schema.js';

// ASCII letters are letters, too. They are named for tools that compile a pattern without Unicode and miss \p{L}.
const NAME = `^[A-Za-z][A-Za-z\\p{L}_.-]{0,${limits.tagNameLengthMax - 1}}$`;
const NAME_MEANS = `have 1 to ${limits.tagNameLengthMax} characters: an ASCII letter, then letters, '_', '-' and '.'`;
const name = new RegExp(NAME, 'u');

export const tagNameSchema = Type.String({
  pattern: NAME,
  'x-means': NAME_MEANS,
  'x-length-max': limits.tagNameLengthMax,
});

export const tagBindSchema = Type.Object({
  tag: tagNameSchema,
  cache_id: Type.String({ minLength: 1, description: 'A cache that is not in status `error`.' }),
});

export const tagSchema = Type.Object({
  tag: Type.String(),
  cache_id: Type.String(),
  object: Type.Literal('cache_object.tag'),
  owned_by: Type.String(),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
});

export const tagListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(tagSchema),
});

export const tagDeletedSchema = Type.Object({
  deleted: Type.Literal(true),
  object: Type.Literal('cache_object.tag.deleted'),
  tag: Type.String(),
});

export interface TagRecord {
  readonly tag: string;
  readonly cacheId: string;
  readonly owner: string;
  readonly createdS: number;
  /** Orders tags of one second; those that were made without stand before the others. */
  readonly order?: number;
}

const fitsBind = compile(tagBindSchema);

export interface TagBind {
  readonly tag: string;
  readonly cacheId: string;
}

/** @throws ApiError that names the field, what came and what is allowed. */
export function parseTagBind(value: unknown): TagBind {
  if (!fitsBind(value)) throw refuse(tagBindSchema, value);
  return { tag: value.tag, cacheId: value.cache_id };
}

/** Whether a tag can have this name at all. */
export function isTagName(tag: string): boolean {
  return name.test(tag);
}

/** Names that come twice count once. */
export function readTagNames(tags: readonly string[]): readonly string[] {
  return [...new Set(tags)];
}

export function tag(record: TagRecord): Static<typeof tagSchema> {
  return {
    tag: record.tag,
    cache_id: record.cacheId,
    object: 'cache_object.tag',
    owned_by: record.owner,
    created_at: record.createdS,
  };
}

export function tagList(records: readonly TagRecord[]): Static<typeof tagListSchema> {
  return { object: 'list', data: records.map(tag) };
}

export function tagDeleted(name: string): Static<typeof tagDeletedSchema> {
  return { deleted: true, object: 'cache_object.tag.deleted', tag: name };
}
