/**
 * Owns the calls of a soak: their kinds, their shares, and the right answers to each.
 * It must never expect an answer that depends on concurrent calls.
 */
import { MODEL } from './chat.js';
import { KEY } from './servers.js';
import type { Shelf, SoakWorld } from './soak-world.js';

export interface SoakCall {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'DELETE' | 'PATCH';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** The right status, beside 429, which every call with a key may get. */
  readonly status: number;
  /** The fault in the body of an answer with the right status; null without one. */
  readonly fault: (text: string) => string | null;
  /** Called with the body of a right answer. */
  readonly kept: (text: string) => void;
  /** Called last, also without an answer. */
  readonly over: () => void;
}

/** Calls of each kind per thousand. */
const SHARES = {
  chat: 300,
  'chat, streamed': 200,
  'chat, cached': 60,
  estimate: 150,
  models: 70,
  model: 40,
  balance: 50,
  'cache: create': 14,
  'cache: get': 25,
  'cache: list': 8,
  'cache: delete': 14,
  'tag: bind': 8,
  'tag: get': 10,
  'tag: list': 4,
  'tag: delete': 8,
  'file: upload': 5,
  'file: get': 6,
  'file: list': 3,
  'file: delete': 5,
  'bad: no key': 4,
  'bad: broken JSON': 4,
  'bad: wrong field': 4,
  'bad: unknown model': 4,
  'bad: unknown cache': 4,
} as const;

type Name = keyof typeof SHARES;
type Parts = Partial<SoakCall> & Pick<SoakCall, 'method' | 'path'>;

/**
 * Texts that are said again and again. The service remembers 64 MiB of what it counted, one or two kilobytes for each short
 * text: at 25 requests/s that takes an hour to be full, and would be taken for a leak. It shares no divisor with the shares.
 */
const TEXTS = 1_009;

const nothing = () => {};
const right = () => null;
const json = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
/** The most things of a kind at the same time. */
const KEPT_MAX = 100;
/** The fewest that remain, so that calls which read always find one. */
const KEPT_MIN = 10;

/** Gives every kind of call its share, in an order without an obvious pattern. */
export class SoakMix {
  readonly #names: readonly Name[];
  #serial = 0;

  constructor(readonly world: SoakWorld) {
    const names = Object.entries(SHARES).flatMap(([name, share]) =>
      Array.from({ length: share }, () => name as Name),
    );
    this.#names = names;
  }

  next(): SoakCall {
    this.#serial += 1;
    // A step without a common divisor visits all calls, and neighbours are far apart.
    const name = this.#names[(this.#serial * 619) % this.#names.length] ?? 'models';
    const parts = this.#parts(name) ?? { name: 'models', method: 'GET', path: '/v1/models' };
    const usual = { name, headers: json, body: null, status: 200 };
    return { ...usual, fault: right, kept: nothing, over: nothing, ...parts };
  }

  /** Null while there is nothing that such a call could name. */
  #parts(name: Name): Parts | null {
    if (name.startsWith('chat')) return this.#chat(name);
    if (name.startsWith('cache: ')) return this.#cache(name);
    if (name.startsWith('tag: ')) return this.#tag(name);
    if (name.startsWith('file: ')) return this.#file(name);
    if (name.startsWith('bad: ')) return bad(name);
    if (name === 'balance') return { method: 'GET', path: '/v1/users/me/balance' };
    if (name === 'model') return { method: 'GET', path: `/v1/models/${MODEL}` };
    if (name !== 'estimate') return { method: 'GET', path: '/v1/models' };
    return post('/v1/tokenizers/estimate-token-count', chat(this.#text()));
  }

  get #number(): number {
    return this.#serial % TEXTS;
  }

  #text(): string {
    return `Say number-${this.#number}, and that is all there is to say of it.`;
  }

  #chat(name: Name): Parts {
    const text = this.#text();
    const streamed = name === 'chat, streamed';
    const cached = name === 'chat, cached';
    const first = cached ? [{ role: 'cache', content: `cache_id=${this.world.cacheId}` }] : [];
    const body = { ...chat(text, first), ...(streamed ? { stream: true } : {}) };
    const own = `number-${this.#number},`;
    const fault = (answer: string): string | null => {
      if (!answer.includes(own)) return 'the answer is not to this question';
      return streamed && !answer.endsWith('data: [DONE]\n\n') ? 'the stream has no end' : null;
    };
    return { ...post('/v1/chat/completions', body), fault };
  }

  #cache(name: Name): Parts | null {
    const { caches } = this.world;
    if (name === 'cache: list') return { method: 'GET', path: '/v1/caching?limit=20' };
    if (name === 'cache: get') return named(caches.use(), '/v1/caching', (id) => caches.done(id));
    if (name === 'cache: delete') return removal(caches, '/v1/caching');
    if (caches.size >= KEPT_MAX) return null;
    const messages = [{ role: 'system', content: this.#text() }];
    const kept = (text: string) => caches.add(idOf(text));
    return { ...post('/v1/caching', { model: FAMILY, messages, ttl: 3_000 }), kept };
  }

  #tag(name: Name): Parts | null {
    const { tags, cacheId } = this.world;
    if (name === 'tag: list') return { method: 'GET', path: `${TAGS}?limit=20` };
    if (name === 'tag: get') return named(tags.use(), TAGS, (tag) => tags.done(tag));
    if (name === 'tag: delete') return removal(tags, TAGS);
    if (tags.size >= KEPT_MAX) return null;
    const tag = tagOf(this.#serial);
    return { ...post(TAGS, { tag, cache_id: cacheId }), kept: () => tags.add(tag) };
  }

  #file(name: Name): Parts | null {
    const { files } = this.world;
    if (name === 'file: list') return { method: 'GET', path: '/v1/files' };
    if (name === 'file: get') return named(files.use(), '/v1/files', (id) => files.done(id));
    if (name === 'file: delete') return removal(files, '/v1/files');
    if (files.size >= KEPT_MAX) return null;
    const body = [
      '--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfile-extract\r\n',
      `--x\r\nContent-Disposition: form-data; name="file"; filename="${this.#serial}.txt"\r\n\r\n`,
      `${this.#text()}\r\n--x--\r\n`,
    ].join('');
    const headers = { ...json, 'content-type': 'multipart/form-data; boundary=x' };
    const kept = (text: string) => files.add(idOf(text));
    return { method: 'POST', path: '/v1/files', headers, body, kept };
  }
}

export const FAMILY = 'svc-v1';
const TAGS = '/v1/caching/refs/tags';

function bad(name: Name): Parts {
  const path = '/v1/chat/completions';
  const { authorization } = json;
  if (name === 'bad: no key') {
    return { method: 'GET', path: '/v1/models', headers: {}, status: 401 };
  }
  if (name === 'bad: unknown cache') {
    return { method: 'GET', path: '/v1/caching/cache-00000000000000000000', status: 404 };
  }
  if (name === 'bad: broken JSON') {
    const headers = { authorization, 'content-type': 'application/json' };
    return { method: 'POST', path, headers, body: '{"model": ', status: 400 };
  }
  const fields = name === 'bad: wrong field' ? { temperature: 'hot' } : { model: 'no-such-model' };
  const status = name === 'bad: wrong field' ? 400 : 404;
  return { ...post(path, { ...chat('of no interest'), ...fields }), status };
}

function post(path: string, body: object): Parts {
  return { method: 'POST', path, body: JSON.stringify(body) };
}

function chat(content: string, first: readonly object[] = []): object {
  return { model: MODEL, messages: [...first, { role: 'user', content }], max_tokens: 128 };
}

function named(id: string | null, path: string, over: (id: string) => void): Parts | null {
  return id === null ? null : { method: 'GET', path: `${path}/${id}`, over: () => over(id) };
}

function removal(shelf: Shelf, path: string): Parts | null {
  const id = shelf.size > KEPT_MIN ? shelf.take() : null;
  return id === null ? null : { method: 'DELETE', path: `${path}/${id}` };
}

/** Spells the number in letters, because tags have no digits. */
function tagOf(serial: number): string {
  const letters = [...String(serial)].map((digit) => 'abcdefghij'[Number(digit)]);
  return `tag-${letters.join('')}`;
}

function idOf(text: string): string {
  return (JSON.parse(text) as { id: string }).id;
}
