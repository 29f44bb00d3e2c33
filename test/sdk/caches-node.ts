/**
 * Caches a long document once and asks ten questions about it, through the Node SDK named on the command line; prints
 * one JSON line a step. It must never import anything of the service: an address and a key are all a client has.
 */
import assert from 'node:assert/strict';
import type OpenAI from 'openai';
import type { OpenAI as Client } from 'openai';
import { until } from '../support/until.js';

type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam;
type Headers = Readonly<Record<string, string>>;

interface Cache {
  readonly id: string;
  readonly status: string;
  readonly tokens: number;
  readonly expired_at: number;
  readonly messages: Message[];
  readonly error?: { readonly type: string; readonly message: string };
}
interface CachedUsage {
  readonly cached_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
}

const [packageName = 'openai'] = process.argv.slice(2);
const { default: sdk } = (await import(packageName)) as { default: typeof OpenAI };
const apiKey = `${process.env.API_KEY}`;
const model = 'svc-v1-8k';

const rooms = Array.from({ length: 12 }, (_, at) => at + 1);
/** Another one in each run, so that no run finds what the one before it left. */
const edition = `Edition ${String(Date.now() % 1_000_000).padStart(6, '0')}\n`;
const text =
  edition +
  rooms
    .map((n) => `Article ${n}: the keeper of room ${n} holds key number ${(n * 7) % 50}.`)
    .join('\n');
const handbook: Message = { role: 'system', content: text };
const questions = rooms.slice(0, 10).map((n) => `Which key does the keeper of room ${n} hold?`);

const user = (content: string): Message => ({ role: 'user', content });
/** A role that the SDK's types do not know. */
const cached = (content: string) => ({ role: 'cache', content }) as unknown as Message;

class Session {
  readonly client: Client;
  cache: Cache = { id: '', status: '', tokens: 0, expired_at: 0, messages: [] };

  constructor(readonly baseURL: string) {
    this.client = new sdk({ baseURL, apiKey, timeout: 60_000 });
  }

  async create(content: string, more: object): Promise<Cache> {
    const messages = [{ role: 'system', content }];
    const body = { model: 'svc-v1', messages, ttl: 600, ...more };
    const cache = await this.client.post<Cache>('/caching', { body });
    assert.equal(cache.status, 'pending');
    assert.ok(cache.tokens > 0);
    return await this.until(cache.id, 'ready');
  }

  async until(id: string, status: string): Promise<Cache> {
    const get = () => this.client.get<Cache>(`/caching/${id}`);
    let cache = await get();
    const holds = async () => {
      cache = await get();
      return cache.status === status;
    };
    await until(holds, 60_000, `${id} is ${status}`);
    return cache;
  }

  /** The answer's error, as the SDK gives it. */
  async refused(kind: new (...args: never[]) => Error, asked: PromiseLike<unknown>) {
    const error = await Promise.resolve(asked).then(
      () => assert.fail('it was let in'),
      (cause: unknown) => cause as Error,
    );
    assert.ok(error instanceof kind, String(error));
    return error.message;
  }

  async ask(messages: Message[], headers: Headers = {}, client = this.client, more: object = {}) {
    const body = { model, messages, max_tokens: 8, ...more };
    const { data, response } = await client.chat.completions
      .create(body, { headers })
      .withResponse();
    return { answer: data, told: toldBy(response), reply: data.choices[0]?.message.content };
  }

  checkHit(told: (name: string) => string | null, usage: CachedUsage | undefined, cache: Cache) {
    assert.equal(told('status'), 'hit', `${told('miss-reason')}`);
    assert.equal(told('id'), cache.id);
    const saved = Number(told('token-saved'));
    assert.ok(saved >= cache.tokens && saved > 0);
    assert.equal(usage?.cached_tokens, saved);
    assert.equal(usage?.prompt_tokens_details?.cached_tokens, saved);
    assert.equal(told('token-ttl'), told('token-exp'));
    assert.equal(told('miss-reason'), null);
  }

  async 'a document is cached once'() {
    const more = { tags: ['handbook'], name: 'handbook', metadata: { kind: 'test' } };
    this.cache = await this.create(text, more);
    const tag = await this.client.get<{ cache_id: string }>('/caching/refs/tags/handbook');
    assert.equal(tag.cache_id, this.cache.id);
    const query = { 'metadata[kind]': 'test' };
    const found = await this.client.get<{ data: Cache[] }>('/caching', { query });
    assert.deepEqual(
      found.data.map(({ id }) => id),
      [this.cache.id],
    );
  }

  async 'ten questions by header'() {
    const headers = {
      'X-Svc-Context-Cache': this.cache.id,
      'X-Svc-Context-Cache-Reset-TTL': '900',
    };
    for (const question of questions) {
      const { answer, told, reply } = await this.ask([handbook, user(question)], headers);
      this.checkHit(told, answer.usage, this.cache);
      assert.ok(reply);
      const { expired_at } = await this.client.get<Cache>(`/caching/${this.cache.id}`);
      assert.equal(expired_at, Number(told('token-exp')));
    }
  }

  async 'ten questions by message'() {
    for (const question of questions) {
      const { answer, told, reply } = await this.ask([
        cached('tag=handbook;reset_ttl=900'),
        user(question),
      ]);
      this.checkHit(told, answer.usage, this.cache);
      assert.ok(reply);
    }
  }

  async 'header, message and no cache answer alike'() {
    const headers = { 'X-Svc-Context-Cache': this.cache.id };
    const question = user(`${questions[0]}`);
    const replies = [
      await this.ask([handbook, question], headers),
      await this.ask([cached('tag=handbook'), question]),
      await this.ask([handbook, question]),
    ];
    assert.equal(new Set(replies.map(({ reply }) => reply)).size, 1);
    assert.equal(new Set(replies.map(({ answer }) => answer.usage?.prompt_tokens)).size, 1);
    assert.equal(replies[2]?.told('status'), null);
  }

  async 'a streamed answer'() {
    const messages = [handbook, user(`${questions[1]}`)];
    const headers = { 'X-Svc-Context-Cache': this.cache.id };
    const { data, response } = await this.client.chat.completions
      .create({ model, messages, max_tokens: 8, stream: true }, { headers })
      .withResponse();
    const usage: CachedUsage[] = [];
    for await (const { choices } of data) {
      for (const choice of choices as { usage?: CachedUsage }[]) {
        if (choice.usage) usage.push(choice.usage);
      }
    }
    assert.equal(usage.length, 1);
    this.checkHit(toldBy(response), usage[0], this.cache);
  }

  async 'default headers'() {
    const defaultHeaders = { 'X-Svc-Context-Cache': this.cache.id };
    const { baseURL } = this;
    const client = new sdk({ baseURL, apiKey, timeout: 60_000, defaultHeaders });
    const { answer, told } = await this.ask([handbook, user(`${questions[2]}`)], {}, client);
    this.checkHit(told, answer.usage, this.cache);
  }

  async 'a miss says why'() {
    const headers = { 'X-Svc-Context-Cache': this.cache.id };
    const changed: Message = {
      role: 'system',
      content: `${edition}Article 1: the keeper of room 2`,
    };
    const missed = await this.ask([changed, user('Who?')], headers);
    assert.equal(missed.told('status'), 'miss');
    assert.equal(missed.told('miss-reason'), 'messages[0].content differs at character 45');
    assert.equal(missed.told('id'), null);
    assert.ok(missed.reply);
    const dry = { ...headers, 'X-Svc-Context-Cache-DryRun': '1' };
    const predicted = await this.ask([handbook, user('Who?')], dry);
    assert.equal(predicted.told('status'), 'hit');
    assert.equal(predicted.reply, '');
    assert.equal(predicted.answer.usage?.completion_tokens, 0);
  }

  async 'a new version takes the tag'() {
    const newer = await this.create(`${text}\nArticle 13: no more.`, { tags: ['handbook'] });
    const { answer, told } = await this.ask([cached('tag=handbook'), user(`${questions[3]}`)]);
    this.checkHit(told, answer.usage, newer);
    await this.client.delete(`/caching/${newer.id}`);
  }

  async 'an expired cache is a miss that comes back'() {
    const { id, messages } = await this.create('Brief words. '.repeat(20), {});
    await this.client.put(`/caching/${id}`, { body: { ttl: 1 } });
    await this.until(id, 'inactive');
    const missed = await this.ask([cached(`cache_id=${id}`), user('Who?')]);
    assert.equal(missed.told('status'), 'expired');
    const after = await this.client.get<Cache>(`/caching/${id}`);
    assert.equal(after.status, 'inactive');
    const headers = { 'X-Svc-Context-Cache': id, 'X-Svc-Context-Cache-Reset-TTL': '300' };
    const late = await this.ask([...messages, user('Who?')], headers);
    assert.deepEqual([late.told('status'), late.told('id')], ['expired', null]);
    const back = await this.until(id, 'ready');
    assert.ok(back.expired_at > Date.now() / 1000 + 200);
    const hit = await this.ask([...messages, user('And who else?')], headers);
    this.checkHit(hit.told, hit.answer.usage, back);
    await this.client.delete(`/caching/${id}`);
  }

  async 'a cache that cannot be made says why'() {
    const messages = [{ role: 'tool', tool_call_id: 'c1', content: 'found' }];
    const body = { model: 'svc-v1', messages };
    const { id } = await this.client.post<Cache>('/caching', { body });
    const { error } = await this.until(id, 'error');
    assert.equal(error?.type, 'invalid_request_error');
    const asked = this.ask([cached(`cache_id=${id}`), user('Who?')]);
    assert.ok((await this.refused(sdk.BadRequestError, asked)).includes(`${error?.message}`));
    const { told, reply } = await this.ask([user('Who?')], { 'X-Svc-Context-Cache': id });
    assert.equal(told('status'), 'error');
    assert.ok(reply);
    await this.client.put(`/caching/${id}`, { body: { ttl: 60 } });
    assert.deepEqual((await this.until(id, 'error')).error, error);
    await this.client.delete(`/caching/${id}`);
  }

  async 'tools, n and the count of saved tokens'() {
    const parameters = { type: 'object', properties: { room: { type: 'integer' } } };
    const tools = [{ type: 'function', function: { name: 'key_of', parameters } }];
    const cache = await this.create('You look up keys. '.repeat(20), { tools });
    const headers = { 'X-Svc-Context-Cache': cache.id };
    const messages = [...cache.messages, user('Which key opens room 3?')];
    const more = { tools, n: 2, temperature: 0.8 };
    const { answer, told } = await this.ask(messages, headers, this.client, more);
    assert.equal(answer.choices.length, 2);
    this.checkHit(told, answer.usage, cache);
    assert.ok(Number(told('token-saved')) < (answer.usage?.prompt_tokens ?? 0), 'once, not twice');
    const missed = await this.ask(messages, headers);
    assert.equal(missed.told('miss-reason'), 'tools has 0 items, the cache has 1 item');
    await this.client.delete(`/caching/${cache.id}`);
  }

  async 'tags and pages'() {
    const refs = '/caching/refs/tags';
    const second = await this.create('A second one.', { tags: ['second', 'other'] });
    const body = { tag: 'other', cache_id: this.cache.id };
    const bound = await this.client.post<Record<string, unknown>>(refs, { body });
    assert.equal(bound.cache_id, this.cache.id);
    const { data: tags } = await this.client.get<{ data: { tag: string }[] }>(refs);
    assert.deepEqual(new Set(tags.map(({ tag }) => tag)), new Set(['handbook', 'other', 'second']));
    const content = await this.client.get<Cache>(`${refs}/second/content`);
    assert.equal(content.id, second.id);
    const list = (query: object) => this.client.get<{ data: Cache[] }>('/caching', { query });
    const { data: newest } = await list({ limit: 1 });
    const { data: rest } = await list({ after: newest[0]?.id });
    const listed = new Set([...newest, ...rest].map(({ id }) => id));
    assert.deepEqual(listed, new Set([second.id, this.cache.id]));
    await this.client.delete(`/caching/${second.id}`);
    const asked = this.ask([cached('tag=second'), user('Who?')]);
    assert.ok((await this.refused(sdk.NotFoundError, asked)).includes(second.id));
    for (const tag of ['second', 'other', 'never-bound']) {
      const deleted = await this.client.delete<{ deleted: boolean }>(`${refs}/${tag}`);
      assert.equal(deleted.deleted, true);
    }
  }

  async 'another user is let see nothing'() {
    const { baseURL, cache } = this;
    const apiKey = `${process.env.OTHER_KEY}`;
    // Asked again after a timeout, the chat would find what its own first try left.
    const other = new sdk({ baseURL, apiKey, timeout: 200_000, maxRetries: 0 });
    const headers = { 'X-Svc-Context-Cache': cache.id };
    for (const ask of [
      () => other.get(`/caching/${cache.id}`),
      () => this.ask([handbook, user('Who?')], headers, other),
      () => this.ask([cached(`cache_id=${cache.id}`)], {}, other),
    ]) {
      assert.match(await this.refused(sdk.PermissionDeniedError, ask()), /other user/);
    }
    assert.deepEqual((await other.get<{ data: Cache[] }>('/caching')).data, []);
    const { answer } = await this.ask([handbook, user(`${questions[9]}`)], {}, other);
    const usage: CachedUsage | undefined = answer.usage;
    assert.equal(usage?.cached_tokens ?? usage?.prompt_tokens_details, undefined);
  }

  async 'what is refused'() {
    const unknown = this.ask([cached('cache_id=cache-none'), user('Who?')]);
    await assert.rejects(unknown, sdk.NotFoundError);
    const twice = this.ask([cached('cache_id=x;cache_id=x'), user('Who?')]);
    await assert.rejects(twice, sdk.BadRequestError);
    const body = { model: 'svc-v1', messages: [handbook], ttl: 0 };
    await assert.rejects(this.client.post('/caching', { body }), sdk.BadRequestError);
  }

  async 'the end'() {
    const { id } = this.cache;
    const updated = await this.client.put<Cache>(`/caching/${id}`, { body: { ttl: 60 } });
    assert.equal(updated.status, 'pending');
    const deleted = await this.client.delete<unknown>(`/caching/${id}`);
    assert.deepEqual(deleted, { deleted: true, id, object: 'context_cache_object.deleted' });
    const headers = { 'X-Svc-Context-Cache': id };
    const { told, reply } = await this.ask([handbook, user('Who?')], headers);
    assert.equal(told('status'), 'unknown');
    assert.ok(reply);
    await this.client.delete('/caching/refs/tags/handbook');
    const { data } = await this.client.get<{ data: Cache[] }>('/caching');
    assert.deepEqual(data, []);
  }
}

function toldBy(response: { readonly headers: { get(name: string): string | null } }) {
  return (name: string) => response.headers.get(`svc-context-cache-${name}`);
}

async function runStep(name: string, task: () => Promise<void>): Promise<void> {
  const beganMs = performance.now();
  const error = await task().then(
    () => null,
    (cause: unknown) => String((cause as Error).stack ?? cause).slice(0, 1500),
  );
  const outcome = { step: name, ok: error === null, ms: performance.now() - beganMs };
  console.log(JSON.stringify(error === null ? outcome : { ...outcome, error }));
}

const steps = Object.getOwnPropertyNames(Session.prototype).filter((name) => name.includes(' '));
for (const engine of ['ECHO', 'REAL']) {
  const session = new Session(`${process.env[`${engine}_URL`]}`);
  for (const name of steps) {
    const step = session[name as keyof Session] as () => Promise<void>;
    await runStep(`${engine}: ${name}`, () => step.call(session));
  }
}
console.log(JSON.stringify({ step: 'end', ok: true, ms: 0 }));
