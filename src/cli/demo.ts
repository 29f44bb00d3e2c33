/**
 * Owns `preface demo`: five questions about one document, asked without and with a context cache, and what the cache saved.
 * It must never touch what a running service keeps, but for the file and the cache that it makes there.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { systemRandom } from '../clock.js';
import { reasonOf } from '../weights/index.js';
import { sizeText } from '../weights/progress.js';
import { demoDocument, demoQuestions } from './demo-document.js';
import { note, print } from './print.js';

export interface DemoPlace {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly key: string;
}

interface Cache {
  readonly id: string;
  readonly status: string;
  readonly tokens: number;
  readonly error?: { readonly message: string };
}

/** How one question went. */
interface Asked {
  readonly firstMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

const NAME = 'harbour-handbook.txt';
const TAG = 'preface-demo';
const BAR_WIDTH = 40;
const LOOK_MS = 100;
/** A prefix of this size takes seconds; a machine that needs longer cannot show anything in time. */
const READY_MS_MAX = 120_000;

export interface OwnDemo {
  /** Its settings file; null: the usual one. */
  readonly config: string | null;
  /** Is given what ends the service and takes its data away, for who is told to stop meanwhile. */
  onStarted(end: () => Promise<void>): void;
}

/** @param place of a running service, or how one of its own is started, which is ended with its data. */
export async function demo(place: DemoPlace | OwnDemo): Promise<void> {
  if ('url' in place) return await show(new Client(place), place);
  const own = await startOwn(place);
  try {
    print(`a service of its own at ${own.place.url}; it ends, and its data go, with this demo`);
    await show(new Client(own.place), null);
  } finally {
    await own.end();
  }
}

async function show(client: Client, place: DemoPlace | null): Promise<void> {
  const model = await client.model();
  const { id: file, text } = await client.upload();
  print(`1  uploaded ${NAME}, ${sizeText(text.length)}, and read its text`);
  const { cache, ms } = await client.cache(model.family, text);
  print(`2  cached it: ${cache.tokens} tokens in ${seconds(ms)}, tag ${TAG}`);
  print(`3  asked five questions of ${model.id}; until the first word came:\n`);
  const pairs: { plain: Asked; cached: Asked }[] = [];
  for (const [at, question] of demoQuestions.entries()) {
    // Another first line each time, as a date would be: a service also reuses prompts that begin like earlier ones.
    const plain = await client.ask(model.id, `Visitor ${at + 1}.\n${text}`, question, null);
    const cached = await client.ask(model.id, text, question, cache.id);
    pairs.push({ plain, cached });
    showPair(question, plain, cached);
  }
  showSum(
    pairs.map(({ plain }) => plain),
    pairs.map(({ cached }) => cached),
  );
  await client.call('DELETE', `/files/${file}`);
  showCurl(model, place);
}

// ------------------------------------------------------------------ what is shown

function showPair(question: string, plain: Asked, cached: Asked): void {
  const longest = Math.max(plain.firstMs, cached.firstMs);
  const bar = ({ firstMs }: Asked) => '█'.repeat(Math.max(1, (BAR_WIDTH * firstMs) / longest));
  print(`   ${question}`);
  print(`     without  ${bar(plain)} ${seconds(plain.firstMs)}`);
  print(`     cached   ${bar(cached)} ${seconds(cached.firstMs)}`);
}

function showSum(plain: readonly Asked[], cached: readonly Asked[]): void {
  const ms = (all: readonly Asked[]) => all.reduce((sum, { firstMs }) => sum + firstMs, 0);
  const prompts = cached.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
  const saved = cached.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0);
  print(
    `\n   saved: ${saved} of ${prompts} prompt tokens, ${seconds(ms(plain) - ms(cached))} of ${seconds(ms(plain))}`,
  );
}

function showCurl({ id, family }: Model, place: DemoPlace | null): void {
  const [question = ''] = demoQuestions;
  print(`\nThe same with curl${place === null ? ', on a service that you start by `preface serve`' : ''}:

curl $OPENAI_BASE_URL/caching -H "Authorization: Bearer $OPENAI_API_KEY" -d '{
  "model": "${family}", "ttl": 3600, "tags": ["${TAG}"],
  "messages": [{"role": "system", "content": "…the text of your document…"}]}'
curl -i $OPENAI_BASE_URL/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY" -d '{
  "model": "${id}", "max_tokens": 40,
  "messages": [{"role": "cache", "content": "tag=${TAG}"}, {"role": "user", "content": "${question}"}]}'`);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

// --------------------------------------------------------------------- the service

interface Model {
  readonly id: string;
  readonly family: string;
}

class Client {
  constructor(readonly place: DemoPlace) {}

  /** The smallest: of those that are there, its prompts are the fastest. */
  async model(): Promise<Model> {
    const { data } = await this.#json<{ data: { id: string; kind?: string }[] }>('GET', '/models');
    const found = data.find(({ kind }) => kind === undefined || kind === 'chat');
    if (found === undefined) throw new Error('the service has no chat model');
    return { id: found.id, family: found.id.replace(/-(auto|\d+k)$/, '') };
  }

  async upload(): Promise<{ id: string; text: string }> {
    const form = new FormData();
    form.set('purpose', 'file-extract');
    form.set('file', new File([demoDocument()], NAME, { type: 'text/plain' }));
    const { id } = await this.#json<{ id: string }>('POST', '/files', form);
    const { content } = await this.#json<{ content: string }>('GET', `/files/${id}/content`);
    return { id, text: content };
  }

  async cache(family: string, text: string): Promise<{ cache: Cache; ms: number }> {
    const startMs = performance.now();
    const messages = [{ role: 'system', content: text }];
    const body = JSON.stringify({ model: family, messages, ttl: 3600, tags: [TAG] });
    let cache = await this.#json<Cache>('POST', '/caching', body);
    while (cache.status === 'pending' && performance.now() - startMs < READY_MS_MAX) {
      await sleep(LOOK_MS);
      cache = await this.#json<Cache>('GET', `/caching/${cache.id}`);
    }
    if (cache.status !== 'ready') {
      throw new Error(`the cache is not ready: ${cache.error?.message ?? cache.status}`);
    }
    return { cache, ms: performance.now() - startMs };
  }

  async ask(model: string, text: string, question: string, cache: string | null): Promise<Asked> {
    const messages = [
      { role: 'system', content: text },
      { role: 'user', content: question },
    ];
    const options = { max_tokens: 24, stream: true, stream_options: { include_usage: true } };
    const body = JSON.stringify({ model, messages, ...options });
    const named = cache === null ? {} : { 'x-svc-context-cache': cache };
    const startMs = performance.now();
    const response = await this.call('POST', '/chat/completions', body, named);
    return await readStream(response, startMs);
  }

  /** @throws Error with what the service said. */
  async call(
    method: string,
    path: string,
    body: string | FormData | null = null,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    const headers = { authorization: `Bearer ${this.place.key}`, ...more };
    const { url } = this.place;
    const response = await fetch(`${url}${path}`, { method, headers, body }).catch((cause) => {
      throw new Error(`${url} does not answer: ${reasonOf(cause)}`, { cause });
    });
    if (response.ok) return response;
    throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  }

  async #json<T>(method: string, path: string, body?: string | FormData): Promise<T> {
    return (await (await this.call(method, path, body)).json()) as T;
  }
}

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly content?: string } }[];
  readonly usage?: { readonly prompt_tokens: number; readonly cached_tokens: number } | null;
}

async function readStream(response: Response, startMs: number): Promise<Asked> {
  let [firstMs, promptTokens, cachedTokens] = [0, 0, 0];
  for await (const { choices, usage } of chunksOf(response)) {
    const isFirst = firstMs === 0 && choices.some(({ delta }) => delta.content);
    if (isFirst) firstMs = performance.now() - startMs;
    if (usage) [promptTokens, cachedTokens] = [usage.prompt_tokens, usage.cached_tokens];
  }
  return { firstMs, promptTokens, cachedTokens };
}

async function* chunksOf({ body }: Response): AsyncGenerator<Chunk> {
  const decoder = new TextDecoder();
  let held = '';
  for await (const bytes of body ?? []) {
    held += decoder.decode(bytes, { stream: true });
    const events = held.split('\n\n');
    held = events.pop() ?? '';
    for (const event of events) {
      const text = event.slice('data: '.length);
      if (text !== '[DONE]') yield JSON.parse(text) as Chunk;
    }
  }
}

// ------------------------------------------------------------------ one of its own

const LISTENING = /^preface listening on (\S+)$/;

interface Own {
  readonly place: DemoPlace;
  end(): Promise<void>;
}

async function startOwn({ config, onStarted }: OwnDemo): Promise<Own> {
  const folder = await mkdtemp(join(tmpdir(), 'preface-demo-'));
  const key = `sk-demo-${systemRandom(16).toString('hex')}`;
  const cli = fileURLToPath(new URL('../cli.js', import.meta.url));
  const named = config === null ? [] : ['--config', config];
  const args = [cli, 'serve', '--port', '0', '--data-dir', folder, ...named];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, PREFACE_API_KEYS: `demo:${key}`, PREFACE_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const closed = once(child, 'close');
  const end = async () => {
    child.kill('SIGTERM');
    await closed;
    await rm(folder, { recursive: true, force: true });
  };
  onStarted(end);
  note('starting; the default weights are fetched once');
  for await (const line of createInterface({ input: child.stdout })) {
    const url = LISTENING.exec(line)?.[1];
    if (url === undefined) continue;
    child.stdout.resume();
    return { place: { url, key }, end };
  }
  await end();
  throw new Error('the service of the demo did not start');
}
