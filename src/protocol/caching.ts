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
import { type ChatMessage, checkToolResults, readMessages, withImageFields } from './message.js';
import { messageSchema, toolSchema, type WireMessage, type WireTool } from './message-schema.js';
import { type PageQuery, parsePageQuery } from './page-query.js';
import { absent, compile, isObject, type JsonObject, type Static, Type } from './schema.js';
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

const pin = absent(
  Type.Boolean({
    description:
      'Keep the prefilled prefix in memory while the cache lives; `snapshot.pinned` tells whether there is room.',
  }),
);

const factFields = {
  name: absent(Type.String({ maxLength: limits.cacheNameLengthMax })),
  description: absent(Type.String({ maxLength: limits.cacheDescriptionLengthMax })),
  metadata: absent(metadataSchema),
  pin,
  ...expiryFields,
  tags: absent(
    Type.Array(tagNameSchema, {
      maxItems: limits.cacheTagsMax,
      description: 'Tags that move to the new cache, together with its creation.',
    }),
  ),
};

const model = Type.String({ minLength: 1, description: 'A model family.' });
const messages = Type.Array(messageSchema, {
  maxItems: limits.messagesMax,
  description: 'As in a chat, without `partial`. May be empty only beside tools.',
});
const tools = absent(Type.Array(toolSchema, { maxItems: limits.toolsMax }));
const base = Type.String({
  minLength: 1,
  description:
    'Id or tag of a cache. The new cache begins with its tools and messages, and `messages` follow them. Not beside `tools`.',
});

/** Of a cache without a base. */
export const cacheCreateSchema = Type.Object({ model, messages, tools, ...factFields });

/** Of a cache that goes on from another. */
const cacheDeriveSchema = Type.Object({ base, model: absent(model), messages, ...factFields });

/** Of both, as it is described: without `base`, `model` must be there. */
export const cacheBodySchema = Type.Object({
  model: Type.Optional(model),
  base: absent(base),
  messages,
  tools,
  ...factFields,
});

export const cacheUpdateSchema = Type.Object({
  metadata: absent(metadataSchema),
  pin,
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
  base: Type.Optional(
    Type.String({ description: 'The cache it was derived from, which may be gone by now.' }),
  ),
  pin: Type.Optional(Type.Literal(true, { description: 'Only where it was asked for.' })),
  snapshot: Type.Optional(
    Type.Object(
      {
        bytes: Type.Integer({ minimum: 0, description: 'Bytes on disk.' }),
        evaluated_tokens: Type.Integer({
          minimum: 0,
          description: 'Tokens that were evaluated for it; the others were reused.',
        }),
        pinned: Type.Optional(
          Type.Boolean({
            description:
              'Only beside `pin`. Whether it is kept in memory: false where there is no room, or its engine keeps none.',
          }),
        ),
      },
      { description: 'What was prefilled, once the cache is ready.' },
    ),
  ),
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

/** @param query raw, without the question mark. @throws ApiError as `parsePageQuery`. */
export function parseCacheQuery(query: string): PageQuery {
  return parsePageQuery(query, { item: cacheSchema });
}

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
  /** Its prefilled prefix is to stay in memory. */
  readonly pin: boolean;
  /** A fault that makes the cache end in `error`, although the request is valid. */
  readonly fault: CacheError | null;
  /** Id of the cache it goes on from; null for none. */
  readonly base: string | null;
}

/** All that is small of a creation, whatever its conversation is. */
export type CacheFacts = Omit<CacheCreation, 'messages' | 'tools' | 'wireMessages' | 'wireTools'>;

export function factsOf(creation: CacheCreation): CacheFacts {
  const { family, name, description, metadata, expiry, tags, pin, fault, base } = creation;
  return { family, name, description, metadata, expiry, tags, pin, fault, base };
}

export interface CacheUpdate {
  /** null: stays as it is. */
  readonly metadata: CacheMetadata | null;
  /** null: stays as it is. */
  readonly expiry: CacheExpiry | null;
  /** Absent: stays as it is. */
  readonly pin?: boolean;
}

const changeableFields: readonly string[] = Object.keys(cacheUpdateSchema.properties);
const fixedFields = [cacheBodySchema, cacheSchema]
  .flatMap(({ properties }) => Object.keys(properties))
  .filter((name) => !changeableFields.includes(name));

const fitsCreate = compile(cacheCreateSchema);
const fitsDerive = compile(cacheDeriveSchema);
const fitsUpdate = compile(cacheUpdateSchema);

/** The cache that a new one goes on from, as its messages and tools came in. */
export interface CacheBase {
  readonly id: string;
  readonly family: string;
  readonly messages: readonly JsonObject[];
  readonly tools: readonly JsonObject[];
}

/** The id or tag of the cache to go on from; null for none. @throws ApiError for one of another type. */
export function baseOf(value: unknown): string | null {
  const name = isObject(value) ? (value.base ?? null) : null;
  if (name === null) return null;
  // The whole body is checked here, so that its own faults are told before those of the base.
  if (!fitsDerive(value)) throw refuse(cacheDeriveSchema, value);
  refuseBesideBase(value);
  return value.base;
}

/** @throws ApiError that names the field, what came and what is allowed. */
export function parseCacheCreate(value: unknown): CacheCreation {
  if (!fitsCreate(value)) throw refuse(cacheCreateSchema, value);
  const { messages, tools } = readContent(value);
  const wireTools = value.tools ?? [];
  const content = { messages, tools, wireMessages: value.messages, wireTools };
  return { family: value.model, ...content, ...readFacts(value, messages, tools), base: null };
}

/** The same, of a cache that goes on from another. Positions in errors are those of the request. */
export function parseCacheDerive(value: unknown, base: CacheBase): CacheCreation {
  if (!fitsDerive(value)) throw refuse(cacheDeriveSchema, value);
  refuseBesideBase(value);
  if ((value.model ?? base.family) !== base.family) {
    throw invalid(
      `model must be ${shown(base.family)}, the family of the base, or absent; got ${shown(value.model)}`,
      'model',
    );
  }
  refuseOpenBase(base);
  const wireMessages = [...base.messages, ...value.messages];
  if (wireMessages.length > limits.messagesMax) {
    throw invalid(
      `messages must have at most ${limits.messagesMax - base.messages.length} items beside the ${base.messages.length} of the base, got ${value.messages.length}`,
      'messages',
    );
  }
  readMessages(value.messages);
  const all = { messages: wireMessages as WireMessage[], tools: base.tools as WireTool[] };
  const read = readMessages(all.messages);
  const messages = withImageFields(read, imageFields(read, base.messages.length));
  const tools = readTools(all.tools);
  const content = { messages, tools, wireMessages, wireTools: base.tools };
  return { family: base.family, ...content, ...readFacts(value, messages, tools), base: base.id };
}

/** As the client numbers the messages, which are those behind the base. */
function imageFields(messages: readonly ChatMessage[], inBase: number): string[] {
  return messages.flatMap(({ content }, position) =>
    typeof content === 'string'
      ? []
      : content.flatMap(({ type }, at) => {
          if (type === 'text') return [];
          const sent = position - inBase;
          return sent < 0 ? 'base' : `messages[${sent}].content[${at}].image_url.url`;
        }),
  );
}

/** @throws ApiError as above. */
export function parseCacheUpdate(value: unknown): CacheUpdate {
  if (!fitsUpdate(value)) throw refuse(cacheUpdateSchema, value);
  refuseFixed(value);
  const { metadata } = value;
  const pinned = value.pin ?? null;
  const expiry = readExpiry(value);
  return {
    metadata: metadata === undefined || metadata === null ? null : readMetadata(metadata),
    expiry: expiry.type === 'default' ? null : expiry,
    ...(pinned === null ? {} : { pin: pinned }),
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

/** What a cache holds. */
interface CacheContent {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
  /** The last message, of any role, is only the beginning of one: the prefix ends inside it. */
  readonly partial: boolean;
}

/** Messages and tools as stored: canonical JSON texts, checked when they came. */
export function readCacheContent(texts: CacheTexts): CacheContent {
  const messages = texts.messages.map((text) => JSON.parse(text) as WireMessage);
  const last = messages.at(-1);
  const partial = last?.partial === true;
  if (partial) messages.splice(-1, 1, { ...last, partial: false });
  return {
    messages: readMessages(messages),
    tools: readTools(texts.tools.map((text) => JSON.parse(text) as WireTool)),
    partial,
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
  readonly base?: string;
  readonly pin?: true;
  readonly snapshot?: SnapshotFacts;
}

/** What a prefill made. */
export interface SnapshotFacts {
  readonly bytes: number;
  readonly evaluatedTokens: number;
  /** Kept in memory; absent where nobody asked for that. */
  readonly pinned?: boolean;
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
    ...(cache.base === undefined ? {} : { base: cache.base }),
    ...(cache.pin === true ? { pin: true } : {}),
    ...snapshotJson(cache),
    ...(cache.error === null ? {} : { error: cache.error }),
  });
  return `${head.slice(0, -1)},"metadata":${metadataJson(cache.metadata)},`;
}

function snapshotJson({ status, snapshot, pin }: CacheShown) {
  if (status !== 'ready' || snapshot === undefined) return {};
  const { bytes, evaluatedTokens, pinned } = snapshot;
  const kept = pin === true ? { pinned: pinned === true } : {};
  return { snapshot: { bytes, evaluated_tokens: evaluatedTokens, ...kept } };
}

export function cacheListJson(caches: readonly string[]): string {
  return `{"object":"list","data":[${caches.join(',')}]}`;
}

export function cacheDeleted(id: string): Static<typeof cacheDeletedSchema> {
  return { deleted: true, id, object: 'context_cache_object.deleted' };
}

function readFacts(
  value: Static<typeof cacheCreateSchema> | Static<typeof cacheDeriveSchema>,
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[],
) {
  return {
    name: value.name ?? '',
    description: value.description ?? '',
    metadata: readMetadata(value.metadata),
    expiry: readExpiry(value),
    tags: readTagNames(value.tags ?? []),
    pin: value.pin ?? false,
    fault: toolFault(messages, tools),
  };
}

function refuseBesideBase(value: Static<typeof cacheDeriveSchema>): void {
  const sent = 'tools' in value ? (value.tools ?? null) : null;
  if (sent !== null) {
    throw invalid(
      `tools must be null beside base: the cache has the tools of its base; got ${shown(sent)}`,
      'tools',
    );
  }
  if (value.messages.length === 0) {
    throw invalid('messages must not be empty beside base', 'messages');
  }
  value.messages.forEach(refusePartial);
}

/** A chat left it behind, and its prefix ends inside a message. */
function refuseOpenBase({ id, messages }: CacheBase): void {
  if (messages.at(-1)?.partial !== true) return;
  throw invalid(
    `base must be a cache of whole messages, and ${id} ends inside of its last message`,
    'base',
  );
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
