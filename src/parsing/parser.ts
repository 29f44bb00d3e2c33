/**
 * Owns the parse of every JSON body: small ones here and now, large ones in a thread of their own.
 * It must never do on the main thread what costs more than a small body does.
 */
import { fromErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type { CacheOptions } from '../protocol/cache-options.js';
import {
  beginsWithCache,
  cacheMessage,
  checkBesideCache,
  parseCachedChat,
} from '../protocol/cached-chat.js';
import {
  type CacheCreation,
  type CacheFacts,
  type CacheUpdate,
  factsOf,
  parseCacheCreate,
  parseCacheUpdate,
  readCacheContent,
} from '../protocol/caching.js';
import {
  type ChatRequest,
  type ChatSettings,
  parseChatRequest,
  settingsOf,
} from '../protocol/chat.js';
import { parseEstimateRequest } from '../protocol/estimate.js';
import { parseJson, parseJsonCounted } from '../protocol/json.js';
import type { JsonObject } from '../protocol/schema.js';
import { parseTagBind, type TagBind } from '../protocol/tags.js';
import { canonicalPrefix, type PrefixHash, prefixChain } from '../rules/prefix.js';
import { memoryIn, ownBytes } from './packing.js';
import { decodeBody, encodeBody } from './stored-body.js';
import { FarTalk, NearTalk, type Talk } from './talk.js';
import type {
  OwnBytes,
  ParseAnswer,
  ParseKind,
  ParseResult,
  ParseTask,
  ParseWork,
  Threads,
} from './tasks.js';
import { OwnerTurns } from './turns.js';

/** The threads; one task, one result. */
export interface ParsePool {
  run(task: ParseTask, moved: ArrayBuffer[]): Promise<ParseResult>;
}

export type OpenedChat =
  | { readonly type: 'plain'; readonly settings: ChatSettings; readonly talk: Talk }
  | CachedChat;

/** Begins with a cache: the rest is read once the cache is known. */
export interface CachedChat {
  readonly type: 'cached';
  readonly model: string;
  /** @throws ApiError for options that are wrong. */
  options(): CacheOptions;
  /** @param stored null where there is no such cache. @throws ApiError */
  join(
    stored: Uint8Array | null,
  ): Promise<{ readonly settings: ChatSettings; readonly talk: Talk }>;
  readonly heldBytes: number;
}

/** A cache to be: its facts, its conversation, and the bytes that are stored of it. */
export interface NewCache extends CacheFacts {
  readonly talk: Talk;
  readonly stored: Uint8Array;
  /** The identity that the conversation has for its owner. */
  hashFor(owner: string): PrefixHash;
}

export class Parser implements Threads {
  readonly #turns = new OwnerTurns(limits.parseThreads);

  constructor(
    readonly pool: ParsePool,
    readonly nearBytesMax: number = limits.bodyNearBytesMax,
  ) {}

  isFar(bytes: number): boolean {
    return bytes > this.nearBytesMax;
  }

  /** @throws ApiError that the thread answered with. */
  async run<Kind extends ParseKind>(
    owner: string,
    kind: Kind,
    ask: ParseWork[Kind]['ask'],
  ): Promise<ParseAnswer<Kind>> {
    // The pair of kind and question is one of the union, which TypeScript cannot see of a type parameter.
    const task = { kind, ask } as unknown as ParseTask;
    const moved = [
      ...memoryIn('talk' in ask ? ask.talk : null),
      ...memoryIn('body' in ask ? ask.body : null),
    ];
    const result = await this.#turns.run(owner, () => this.pool.run(task, moved));
    if (result.type === 'error') throw fromErrorValue(result.error);
    return result as ParseAnswer<Kind>;
  }

  /** @param compares whether the chat may be compared with a cache. */
  async chat(owner: string, body: Buffer, compares: boolean): Promise<OpenedChat> {
    if (!this.isFar(body.length)) return this.#nearChat(owner, body);
    const { answer: parsed } = await this.run(owner, 'chat', { body: ownBytes(body), compares });
    if (parsed.type === 'plain') {
      return { ...parsed, talk: new FarTalk(this, owner, parsed.talk) };
    }
    const { model, options, body: again } = parsed;
    return {
      type: 'cached',
      model,
      options() {
        if ('fault' in options) throw fromErrorValue(options.fault);
        return options;
      },
      join: (stored) => this.#joined(owner, again, stored ?? NOTHING_STORED),
      heldBytes: again.byteLength,
    };
  }

  #nearChat(owner: string, body: Buffer): OpenedChat {
    const { value, heldBytes } = parseJsonCounted(body);
    if (!beginsWithCache(value)) {
      const request = parseChatRequest(value);
      return {
        type: 'plain',
        settings: settingsOf(request),
        talk: this.#near(owner, request, heldBytes),
      };
    }
    const { model } = checkBesideCache(value);
    return {
      type: 'cached',
      model,
      options: () => cacheMessage(value),
      join: async (stored) => {
        if (stored !== null && this.isFar(stored.byteLength)) {
          return await this.#joined(owner, ownBytes(body), stored);
        }
        const request = parseCachedChat(value, wireContent(stored));
        const talk = this.#near(owner, request, heldBytes + 2 * (stored?.byteLength ?? 0));
        return { settings: settingsOf(request), talk };
      },
      heldBytes,
    };
  }

  #near(owner: string, request: ChatRequest, heldBytes: number): NearTalk {
    const { messages, tools, partial } = request;
    return new NearTalk(this, owner, { messages, tools, partial }, request, heldBytes);
  }

  async #joined(owner: string, body: OwnBytes, stored: Uint8Array) {
    const { answer } = await this.run(owner, 'join', { body, stored: ownBytes(stored) });
    const { settings, talk } = answer;
    return { settings, talk: new FarTalk(this, owner, talk) };
  }

  /** @throws ApiError that names the field, what came and what is allowed. */
  async estimate(
    owner: string,
    body: Buffer,
  ): Promise<{ readonly model: string; readonly talk: Talk }> {
    if (this.isFar(body.length)) {
      const { answer } = await this.run(owner, 'estimate', { body: ownBytes(body) });
      const { model, talk } = answer;
      return { model, talk: new FarTalk(this, owner, talk) };
    }
    const { value, heldBytes } = parseJsonCounted(body);
    const { model, ...source } = parseEstimateRequest(value);
    return { model, talk: new NearTalk(this, owner, source, null, heldBytes) };
  }

  /** @throws ApiError as above. */
  async create(owner: string, body: Buffer): Promise<NewCache> {
    if (!this.isFar(body.length)) {
      const { value, heldBytes } = parseJsonCounted(body);
      return nearCache(this, owner, parseCacheCreate(value), heldBytes);
    }
    const { answer: made } = await this.run(owner, 'create', { body: ownBytes(body), owner });
    const { facts, stored, hash } = made;
    return { ...facts, stored, hashFor: () => hash, talk: new FarTalk(this, owner, made.talk) };
  }

  /** @throws ApiError as above. */
  async update(owner: string, body: Buffer): Promise<CacheUpdate> {
    if (!this.isFar(body.length)) return parseCacheUpdate(parseJson(body));
    return (await this.run(owner, 'update', { body: ownBytes(body) })).answer;
  }

  /** @throws ApiError as above. */
  async tag(owner: string, body: Buffer): Promise<TagBind> {
    if (!this.isFar(body.length)) return parseTagBind(parseJson(body));
    return (await this.run(owner, 'tag', { body: ownBytes(body) })).answer;
  }

  /** The conversation of a stored cache, and how many messages it has. */
  async open(
    owner: string,
    stored: Uint8Array,
  ): Promise<{ readonly talk: Talk; readonly messages: number }> {
    if (this.isFar(stored.byteLength)) {
      const { answer } = await this.run(owner, 'open', { stored: ownBytes(stored) });
      const { talk, messages } = answer;
      return { talk: new FarTalk(this, owner, talk), messages };
    }
    const content = readCacheContent(decodeBody(stored));
    const near = { ...content, partial: false };
    const talk = new NearTalk(this, owner, near, null, 2 * stored.byteLength);
    return { talk, messages: content.messages.length };
  }
}

/** @param heldBytes what the parsed body takes. */
export function nearCache(
  threads: Threads,
  owner: string,
  creation: CacheCreation,
  heldBytes: number,
): NewCache {
  const { family, messages, tools, wireMessages, wireTools } = creation;
  const texts = canonicalPrefix(wireMessages, wireTools);
  const hashFor = (owner: string) => prefixChain({ owner, family }, texts).at(-1) as PrefixHash;
  const talk = new NearTalk(threads, owner, { messages, tools, partial: false }, null, heldBytes);
  return { ...factsOf(creation), talk, stored: encodeBody(texts), hashFor };
}

const NOTHING_STORED = encodeBody({ messages: [], tools: [] });

/** Messages and tools as the client once sent them. */
function wireContent(stored: Uint8Array | null) {
  const { messages, tools } = stored === null ? { messages: [], tools: [] } : decodeBody(stored);
  const parsed = (texts: readonly string[]) => texts.map((text) => JSON.parse(text) as JsonObject);
  return { messages: parsed(messages), tools: parsed(tools) };
}
