/**
 * Owns the wire shapes of context caches and the parse of what clients send about them.
 * It must never know the time, a family or a token count: what depends on those is decided below.
 */
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import {
  type CacheMetadata,
  metadataJson,
  metadataSchema,
  readMetadata,
} from './cache-metadata.js';
import { refuse } from './chat-faults.js';
import { quoted, shown } from './field.js';
import { type ChatMessage, checkToolResults, readMessages } from './message.js';
import { messageSchema, toolSchema, type WireMessage, type WireTool } from './message-schema.js';
import { absent, compile, type JsonObject, type Static, Type } from './schema.js';
import { readTagNames, tagNameSchema } from './tags.js';
import { type ChatTool, readTools } from './tool.js';

export const cacheStatuses = ['pending', 'ready', 'error', 'inactive'] as const;
export type CacheStatus = (typeof cacheStatuses)[number];

export interface CacheError {
  readonly type: string;
  readonly message: string;
}

/** When a cache expires, in the client's words: seconds from now, an absolute time, or the default. */
export type CacheExpiry =
  | { readonly type: 'ttl'; readonly ttlS: number }
  | { readonly type: 'at'; readonly expiredAtS: number }
  | { readonly type: 'default' };

const expiryFields = {
  expired_at: absent(
    Type.Integer({
      minimum: Number.MIN_SAFE_INTEGER,
      maximum: Number.MAX_SAFE_INTEGER,
      description: `Unix seconds, at most ${limits.cacheTtlSMax} ahead. Absent and 0: in one hour. Not beside \`ttl\`.`,
    }),
  ),
  ttl: absent(
    Type.Integer({
      minimum: 1,
      maximum: limits.cacheTtlSMax,
      description: 'Seconds from now. Not beside `expired_at`.',
    }),
  ),
};

export const cacheCreateSchema = Type.Object({
  model: Type.String({ minLength: 1, description: 'A model family.' }),
  messages: Type.Array(messageSchema, {
    maxItems: limits.messagesMax,
    description: 'As in a chat, without `partial`. May be empty only beside tools.',
  }),
  tools: absent(Type.Array(toolSchema, { maxItems: limits.toolsMax })),
  name: absent(Type.String({ maxLength: limits.cacheNameLengthMax })),
  description: absent(Type.String({ maxLength: limits.cacheDescriptionLengthMax })),
  metadata: absent(metadataSchema),
  ...expiryFields,
  tags: absent(
    Type.Array(tagNameSchema, {
      maxItems: limits.cacheTagsMax,
      description: 'Tags that move to the new cache, together with its creation.',
    }),
  ),
});

export const cacheUpdateSchema = Type.Object({
  metadata: absent(metadataSchema),
  ...expiryFields,
});

export const cacheSchema = Type.Object({
  id: Type.String(),
  status: Type.Enum(cacheStatuses),
  object: Type.Literal('context-cache'),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
  expired_at: Type.Integer({ description: 'Unix seconds.' }),
  tokens: Type.Integer({ minimum: 0 }),
  model: Type.String(),
  messages: Type.Array(messageSchema),
  tools: Type.Array(toolSchema),
  name: Type.String(),
  description: Type.String(),
  metadata: metadataSchema,
  error: Type.Optional(
    Type.Object(
      { type: Type.String(), message: Type.String() },
      { description: 'Only with status `error`.' },
    ),
  ),
});

export const cacheListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(cacheSchema),
});

export const cacheDeletedSchema = Type.Object({
  deleted: Type.Literal(true),
  id: Type.String(),
  object: Type.Literal('context_cache_object.deleted'),
});

export interface CacheCreation {
  readonly family: string;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
  /** As the client sent them, for the canonical form. */
  readonly wireMessages: readonly JsonObject[];
  readonly wireTools: readonly JsonObject[];
  readonly name: string;
  readonly description: string;
  readonly metadata: CacheMetadata;
  readonly expiry: CacheExpiry;
  readonly tags: readonly string[];
  /** A fault that makes the cache end in `error`, although the request is valid. */
  readonly fault: CacheError | null;
}

/** All that is small of a creation, whatever its conversation is. */
export type CacheFacts = Omit<CacheCreation, 'messages' | 'tools' | 'wireMessages' | 'wireTools'>;

export function factsOf(creation: CacheCreation): CacheFacts {
  const { family, name, description, metadata, expiry, tags, fault } = creation;
  return { family, name, description, metadata, expiry, tags, fault };
}

export interface CacheUpdate {
  /** null: stays as it is. */
  readonly metadata: CacheMetadata | null;
  /** null: stays as it is. */
  readonly expiry: CacheExpiry | null;
}

const changeableFields: readonly string[] = Object.keys(cacheUpdateSchema.properties);
const fixedFields = [cacheCreateSchema, cacheSchema]
  .flatMap(({ properties }) => Object.keys(properties))
  .filter((name) => !changeableFields.includes(name));

const fitsCreate = compile(cacheCreateSchema);
const fitsUpdate = compile(cacheUpdateSchema);

/** @throws ApiError that names the field, what came and what is allowed. */
export function parseCacheCreate(value: unknown): CacheCreation {
  if (!fitsCreate(value)) throw refuse(cacheCreateSchema, value);
  const { messages, tools } = readContent(value);
  return {
    family: value.model,
    messages,
    tools,
    wireMessages: value.messages,
    wireTools: value.tools ?? [],
    name: value.name ?? '',
    description: value.description ?? '',
    metadata: readMetadata(value.metadata),
    expiry: readExpiry(value),
    tags: readTagNames(value.tags ?? []),
    fault: toolFault(messages, tools),
  };
}

/** @throws ApiError as above. */
export function parseCacheUpdate(value: unknown): CacheUpdate {
  if (!fitsUpdate(value)) throw refuse(cacheUpdateSchema, value);
  refuseFixed(value);
  const { metadata } = value;
  const expiry = readExpiry(value);
  return {
    metadata: metadata === undefined || metadata === null ? null : readMetadata(metadata),
    expiry: expiry.type === 'default' ? null : expiry,
  };
}

/** A client that sends one believes that it changed the cache. */
function refuseFixed(value: object): void {
  for (const [name, sent] of Object.entries(value)) {
    if (sent === null || !fixedFields.includes(name)) continue;
    const allowed = changeableFields.join(', ');
    throw invalid(
      `${name} of a cache cannot be changed, only ${allowed} can; got ${shown(sent)}`,
      name,
    );
  }
}

export interface CacheTexts {
  readonly messages: readonly string[];
  readonly tools: readonly string[];
}

/** Messages and tools as stored: canonical JSON texts, checked when they came. */
export function readCacheContent(texts: CacheTexts): {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
} {
  return {
    messages: readMessages(texts.messages.map((text) => JSON.parse(text) as WireMessage)),
    tools: readTools(texts.tools.map((text) => JSON.parse(text) as WireTool)),
  };
}

/** What a client sees of a cache. */
export interface CacheShown {
  readonly id: string;
  readonly status: CacheStatus;
  readonly createdS: number;
  readonly expiredAtS: number;
  readonly tokens: number;
  readonly family: string;
  readonly name: string;
  readonly description: string;
  readonly metadata: CacheMetadata;
  readonly error: CacheError | null;
}

export function cacheJson(cache: CacheShown, texts: CacheTexts): string {
  return `${cacheHeadJson(cache)}${cacheContentJson(texts)}}`;
}

/** Messages and tools go out as the stored texts, so that they equal what came in. */
export function cacheContentJson({ messages, tools }: CacheTexts): string {
  return `"messages":[${messages.join(',')}],"tools":[${tools.join(',')}]`;
}

/** JSON text up to the messages and tools, with the comma before them. */
export function cacheHeadJson(cache: CacheShown): string {
  const head = JSON.stringify({
    id: cache.id,
    status: cache.status,
    object: 'context-cache',
    created_at: cache.createdS,
    expired_at: cache.expiredAtS,
    tokens: cache.tokens,
    model: cache.family,
    name: cache.name,
    description: cache.description,
    ...(cache.error === null ? {} : { error: cache.error }),
  });
  return `${head.slice(0, -1)},"metadata":${metadataJson(cache.metadata)},`;
}

export function cacheListJson(caches: readonly string[]): string {
  return `{"object":"list","data":[${caches.join(',')}]}`;
}

export function cacheDeleted(id: string): Static<typeof cacheDeletedSchema> {
  return { deleted: true, id, object: 'context_cache_object.deleted' };
}

function readContent(wire: Static<typeof cacheCreateSchema>) {
  const tools = wire.tools ?? [];
  if (wire.messages.length === 0 && tools.length === 0) {
    throw invalid('messages must not be empty when there are no tools', 'messages');
  }
  wire.messages.forEach(refusePartial);
  return { messages: readMessages(wire.messages), tools: readTools(tools) };
}

function refusePartial(message: WireMessage, position: number): void {
  if (message.partial !== true) return;
  const field = `messages[${position}].partial`;
  throw invalid(`${field} is not supported in a cache, got true`, field);
}

function readExpiry(wire: { expired_at?: number | null; ttl?: number | null }): CacheExpiry {
  const ttlS = wire.ttl ?? null;
  // Zero is how some clients write "none".
  const expiredAtS = wire.expired_at === 0 ? null : (wire.expired_at ?? null);
  if (ttlS !== null && expiredAtS !== null) {
    throw invalid(
      `expired_at and ttl must not both be given, got expired_at ${expiredAtS} and ttl ${ttlS}`,
      'ttl',
    );
  }
  if (ttlS !== null) return { type: 'ttl', ttlS };
  return expiredAtS === null ? { type: 'default' } : { type: 'at', expiredAtS };
}

/** The two faults of a conversation that show in the cache's status, not in the answer to its creation. */
function toolFault(
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[],
): CacheError | null {
  try {
    checkToolResults(messages);
    checkCalledTools(messages, tools);
    return null;
  } catch (cause) {
    if (!(cause instanceof ApiError)) throw cause;
    return { type: cause.type, message: cause.message };
  }
}

function checkCalledTools(messages: readonly ChatMessage[], tools: readonly ChatTool[]): void {
  const known = new Set(tools.map(({ name }) => name));
  for (const [position, { toolCalls }] of messages.entries()) {
    for (const [index, { name }] of toolCalls.entries()) {
      if (known.has(name)) continue;
      throw invalid(
        `messages[${position}].tool_calls[${index}].function.name must be the name of one of the tools, got ${quoted(name)}`,
      );
    }
  }
}
