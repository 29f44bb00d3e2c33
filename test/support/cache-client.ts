/**
 * Owns the steps that black-box tests of caches share: create a cache, wait for it, chat with it.
 * It must never know more of a cache than its headers, its answers and its route show.
 */
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { cacheSchema } from '../../src/protocol/caching.js';
import type { WireCompletion, WireUsage } from '../../src/protocol/completion.js';
import type { Static } from '../../src/protocol/schema.js';
import { type Chunk, type Fields, model, openWithSettings } from './chat-client.js';
import { bobKey, events, type TestService } from './service.js';
import { until } from './until.js';

export type ShownCache = Static<typeof cacheSchema>;
export type Headers = Readonly<Record<string, string>>;

/** Headers that make a request one of bob's. */
export const asBob: Headers = { authorization: `Bearer ${bobKey}` };

const POLL_MS_MAX = 60_000;

const HEADER = 'svc-context-cache-';

export interface CacheHeaders {
  readonly status?: string;
  readonly 'miss-reason'?: string;
  readonly id?: string;
  readonly 'token-saved'?: string;
  readonly 'token-exp'?: string;
  readonly 'token-ttl'?: string;
  readonly nearest?: string;
}

export interface Asked {
  readonly status: number;
  /** Only the headers of the cache, named by the part after `Svc-Context-Cache-`. */
  readonly cache: CacheHeaders;
  readonly contentType: string | null;
  /** Text of the first choice, whole or joined from the stream. */
  readonly text: string;
  /** Usage of all choices; in a stream, from the last chunk of each choice. */
  readonly usage: WireUsage[];
  /** `message` of the error, when the chat was refused. */
  readonly error: string | null;
}

/** A service whose engine keeps prefixes as a test tells it: see `engine-gated.ts`. `limits` go into the settings file. */
export function openGated(t: Test, limits: Fields = {}): Promise<TestService> {
  const engine = fileURLToPath(new URL('./engine-gated.js', import.meta.url));
  return openWithSettings(t, { limits, defaults: { engine, tokenizer: 'bytes', weights: null } });
}

export async function createCache(
  service: TestService,
  fields: Fields,
  headers: Headers = {},
): Promise<ShownCache> {
  const body = { model: 'svc-v1', ...fields };
  const response = await service.call('POST', '/caching', body, headers);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as ShownCache;
}

export async function readyCache(
  service: TestService,
  fields: Fields,
  headers: Headers = {},
): Promise<ShownCache> {
  const { id } = await createCache(service, fields, headers);
  return await untilCache(service, id, { status: 'ready' }, headers);
}

export async function getCache(
  service: TestService,
  id: string,
  headers: Headers = {},
): Promise<ShownCache> {
  const response = await service.call('GET', `/caching/${id}`, undefined, headers);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as ShownCache;
}

/** @throws Error that shows the cache, when it does not have these fields in time. */
export async function untilCache(
  service: TestService,
  id: string,
  wanted: Partial<ShownCache>,
  headers: Headers = {},
): Promise<ShownCache> {
  const fields = Object.entries(wanted);
  let cache = await getCache(service, id, headers);
  const holds = async () => {
    cache = await getCache(service, id, headers);
    return fields.every(([name, value]) => cache[name as keyof ShownCache] === value);
  };
  await until(holds, POLL_MS_MAX, `${id} has ${JSON.stringify(wanted)}`).catch((cause: unknown) => {
    throw new Error(`still ${JSON.stringify(cache)}`, { cause });
  });
  return cache;
}

/** @param messages of the chat. @param more further fields of its body. */
export async function ask(
  service: TestService,
  messages: readonly unknown[],
  headers: Headers = {},
  more: Fields = {},
): Promise<Asked> {
  const body = { model, messages, ...more };
  const response = await service.call('POST', '/chat/completions', body, headers);
  const contentType = response.headers.get('content-type');
  const known = { status: response.status, cache: cacheHeaders(response), contentType };
  if (response.status !== 200) {
    const { error } = (await response.json()) as { error: { message: string } };
    return { ...known, text: '', usage: [], error: error.message };
  }
  const told =
    contentType === 'text/event-stream'
      ? toldStream(await events(response))
      : toldWhole((await response.json()) as WireCompletion);
  return { ...known, ...told, error: null };
}

/** A chat in header mode. */
export function askWith(
  service: TestService,
  id: string,
  messages: readonly unknown[],
  { headers, ...more }: Fields & { readonly headers?: Headers } = {},
): Promise<Asked> {
  return ask(service, messages, { 'x-svc-context-cache': id, ...headers }, more);
}

/** A chat in message mode. */
export function askBy(
  service: TestService,
  options: string,
  messages: readonly unknown[] = [said('Hi')],
  { headers = {}, ...more }: Fields & { readonly headers?: Headers } = {},
): Promise<Asked> {
  return ask(service, [{ role: 'cache', content: options }, ...messages], headers, more);
}

export function said(content: string) {
  return { role: 'user', content };
}

/** Exactly the headers of a hit. */
export function hitHeaders(cache: ShownCache, expiredAtS = cache.expired_at): CacheHeaders {
  return {
    status: 'hit',
    id: cache.id,
    'token-saved': String(cache.tokens),
    'token-exp': String(expiredAtS),
    'token-ttl': String(expiredAtS),
  };
}

export function nowS(): number {
  return Math.floor(Date.now() / 1000);
}

function cacheHeaders(response: Response): CacheHeaders {
  const entries = [...response.headers].filter(([name]) => name.startsWith(HEADER));
  return Object.fromEntries(entries.map(([name, value]) => [name.slice(HEADER.length), value]));
}

function toldWhole({ choices, usage }: WireCompletion): Pick<Asked, 'text' | 'usage'> {
  return { text: choices[0]?.message.content ?? '', usage: [usage] };
}

function toldStream(all: readonly unknown[]): Pick<Asked, 'text' | 'usage'> {
  if (all.at(-1) !== '[DONE]') throw new Error(`ends with ${JSON.stringify(all.at(-1))}`);
  const choices = (all.slice(0, -1) as Chunk[]).flatMap((chunk) => chunk.choices);
  const own = choices.filter(({ index }) => index === 0);
  return {
    text: own.map(({ delta }) => delta.content ?? '').join(''),
    usage: choices.flatMap(({ usage }) => usage ?? []),
  };
}
