/**
 * Owns one client of a service that is killed while it works: its requests, and what the service acknowledged.
 * It must never count an unanswered request as done: only the request that ran at the kill has an unknown outcome.
 */

import type { Random } from '../../src/plugin/test/random-text.js';
import type { WireCompletion } from '../../src/protocol/completion.js';
import type { ShownCache } from './cache-client.js';

const CACHES_MAX = 8;
const TTL_S_MIN = 1800;

/** A cache as the service acknowledged it. */
export interface KnownCache {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly tokens: number;
  readonly revision: string;
  readonly expiredAtS: number;
}

/** The request with an unknown outcome. */
export type Doubt =
  | {
      readonly type: 'create';
      readonly name: string;
      readonly text: string;
      readonly tag: string | null;
    }
  | { readonly type: 'update'; readonly id: string; readonly revision: string }
  | { readonly type: 'delete'; readonly id: string }
  | { readonly type: 'tag'; readonly tag: string; readonly id: string }
  | { readonly type: 'untag'; readonly tag: string }
  | { readonly type: 'chat'; readonly id: string };

export interface CrashClientOptions {
  readonly name: string;
  readonly key: string;
  readonly random: Random;
  /** Prefixes to choose from: equal ones share a snapshot. */
  readonly texts: readonly string[];
  readonly maxTokens: number;
}

/** The service is alive and refused a request. */
export class RefusedError extends Error {}

/** Far longer than any answer takes, even on a loaded machine. */
const CALL_MS_MAX = 60_000;

export class CrashClient {
  readonly known = new Map<string, KnownCache>();
  readonly deleted = new Set<string>();
  /** Tag → id of its cache. */
  readonly tags = new Map<string, string>();
  /** Text of a prefix → the model's answer to it. */
  readonly answers = new Map<string, string>();
  doubt: Doubt | null = null;
  acknowledged = 0;
  onAcknowledged: () => void = () => {};
  url = '';
  #made = 0;

  constructor(readonly options: CrashClientOptions) {}

  /** Works until the service is gone. @throws RefusedError. */
  async work(url: string): Promise<void> {
    this.url = url;
    for (;;) {
      this.doubt = this.#choose();
      try {
        await this.#carryOut(this.doubt);
      } catch (cause) {
        if (cause instanceof RefusedError) throw cause;
        return;
      }
      this.doubt = null;
      this.acknowledged += 1;
      this.onAcknowledged();
    }
  }

  #choose(): Doubt {
    const { random, name, texts } = this.options;
    const ids = [...this.known.keys()];
    const id = ids[random(ids.length)];
    const roll = random(100);
    const tag = `${name}.${'abc'[random(3)]}`;
    if (id === undefined || (roll < 30 && ids.length < CACHES_MAX)) {
      const text = texts[random(texts.length)] ?? '';
      const made = { name: `${name}-${this.#made++}`, text };
      return { type: 'create', ...made, tag: random(2) === 0 ? tag : null };
    }
    if (roll < 45) return { type: 'delete', id };
    if (roll < 60) return { type: 'update', id, revision: `r${this.#made++}` };
    if (roll < 75) return { type: 'tag', tag, id };
    if (roll < 78) return { type: 'untag', tag };
    return { type: 'chat', id };
  }

  async #carryOut(doubt: Doubt): Promise<void> {
    switch (doubt.type) {
      case 'create':
        return await this.#create(doubt);
      case 'update':
        return await this.#update(doubt);
      case 'delete':
        await this.call('DELETE', `/caching/${doubt.id}`);
        this.known.delete(doubt.id);
        this.deleted.add(doubt.id);
        return;
      case 'tag':
        await this.call('POST', '/caching/refs/tags', { tag: doubt.tag, cache_id: doubt.id });
        this.tags.set(doubt.tag, doubt.id);
        return;
      case 'untag':
        await this.call('DELETE', `/caching/refs/tags/${doubt.tag}`);
        this.tags.delete(doubt.tag);
        return;
      case 'chat':
        return await this.#chat(doubt.id);
    }
  }

  async #create({ name, text, tag }: Extract<Doubt, { type: 'create' }>): Promise<void> {
    const created = await this.call<ShownCache>('POST', '/caching', {
      model: 'svc-v1',
      name,
      messages: [{ role: 'system', content: text }],
      metadata: { client: this.options.name, revision: 'r' },
      ttl: this.#ttlS(),
      ...(tag === null ? {} : { tags: [tag] }),
    });
    this.known.set(created.id, knownOf(created));
    if (tag !== null) this.tags.set(tag, created.id);
  }

  async #update({ id, revision }: Extract<Doubt, { type: 'update' }>): Promise<void> {
    const metadata = { client: this.options.name, revision };
    const body = { metadata, ttl: this.#ttlS() };
    this.known.set(id, knownOf(await this.call<ShownCache>('PUT', `/caching/${id}`, body)));
  }

  /** A hit that resets the expiry, or a miss of a cache that is not ready yet. */
  async #chat(id: string): Promise<void> {
    const known = this.known.get(id) as KnownCache;
    const headers = { 'x-svc-context-cache-reset-ttl': `${this.#ttlS()}` };
    const { response } = await this.ask(known, headers);
    const expiry = response.headers.get('svc-context-cache-token-exp');
    // Without a hit the answer does not hold the new time, so it is read from the cache.
    const expiredAtS =
      expiry === null
        ? (await this.call<ShownCache>('GET', `/caching/${id}`)).expired_at
        : Number(expiry);
    this.known.set(id, { ...known, expiredAtS });
  }

  async ask(
    { id, text }: KnownCache,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ response: Response; answer: WireCompletion }> {
    const messages = [
      { role: 'system', content: text },
      { role: 'user', content: 'What is it about?' },
    ];
    const body = { model: 'svc-v1-8k', messages, max_tokens: this.options.maxTokens };
    const response = await this.#send('POST', '/chat/completions', body, {
      'x-svc-context-cache': id,
      ...headers,
    });
    return { response, answer: (await response.json()) as WireCompletion };
  }

  async call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    return (await (await this.#send(method, path, body)).json()) as Answer;
  }

  /** Null for a 404. */
  async find<Answer>(path: string): Promise<Answer | null> {
    const response = await this.#fetch('GET', path);
    if (response.status === 404) return null;
    return (await (await accepted(response)).json()) as Answer;
  }

  async #send(method: string, path: string, body?: unknown, headers = {}): Promise<Response> {
    return await accepted(await this.#fetch(method, path, body, headers));
  }

  #fetch(method: string, path: string, body?: unknown, headers = {}): Promise<Response> {
    return fetch(this.url + path, {
      method,
      // When a connection dies while it is being opened, the client library may never report it.
      signal: AbortSignal.timeout(CALL_MS_MAX),
      headers: { authorization: `Bearer ${this.options.key}`, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  #ttlS(): number {
    return TTL_S_MIN + this.options.random(3600 - TTL_S_MIN);
  }
}

export function knownOf(cache: ShownCache): KnownCache {
  return {
    id: cache.id,
    name: cache.name,
    text: String(cache.messages[0]?.content),
    tokens: cache.tokens,
    revision: String((cache.metadata as Readonly<Record<string, string>>).revision),
    expiredAtS: cache.expired_at,
  };
}

async function accepted(response: Response): Promise<Response> {
  if (response.status === 200) return response;
  throw new RefusedError(`${response.url} ${response.status}: ${await response.text()}`);
}
