/**
 * Owns the proof that two users of one engine get what each gets alone: the same tokens with the same probabilities,
 * whatever the other says, keeps or leaves in between, and no token saved by the other's prompts.
 * It must compare with an owner who has nothing to reuse, never with a text that it expects.
 */
import { join } from 'node:path';
import t from 'tap';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import type { WireCompletion } from '../../src/protocol/completion.js';
import { asBob, createCache, type Headers } from '../support/cache-client.js';
import type { Fields } from '../support/chat-client.js';
import { openService, type TestService, temporaryFolder } from '../support/service.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';

const ROUNDS = Number(process.env.TEST_RUNS ?? 2);
t.setTimeout(Math.max(300, ROUNDS * 60) * 1_000);

const STEPS = 16;
/** What every prompt begins with: the words of the template. */
const COMMON_TOKENS_MAX = 16;
const model = 'svc-v1-8k';
const seed = testSeed();
const random = seededRandom(seed);
const letters = 'abcdefghijklmnopqrstuvwxyz';

function words(count: number): string {
  const word = () => Array.from({ length: 2 + random(5) }, () => letters[random(26)]).join('');
  return Array.from({ length: count }, word).join(' ');
}

interface User {
  readonly name: string;
  readonly headers: Headers;
  /** First messages that this user has sent. */
  readonly said: Set<string>;
  readonly caches: { readonly id: string; readonly text: string }[];
}

interface Told {
  readonly status: number;
  readonly answer: unknown;
  readonly cachedTokens: number;
}

async function ask(service: TestService, body: Fields, headers: Headers): Promise<Told> {
  const response = await service.call('POST', '/chat/completions', body, headers);
  const answer = (await response.json()) as WireCompletion;
  if (response.status !== 200)
    return { status: response.status, answer: answer, cachedTokens: Number.NaN };
  const choices = answer.choices.map(({ message, logprobs, finish_reason }) => {
    return { content: message.content, logprobs, finish_reason };
  });
  const cachedTokens = answer.usage.prompt_tokens_details?.cached_tokens ?? 0;
  return { status: 200, answer: choices, cachedTokens };
}

/** Both may have any of the texts; nobody else has anything of them. */
function bodyOf(text: string): Fields {
  const messages = [
    { role: 'system', content: text },
    { role: 'user', content: words(1 + random(6)) },
  ];
  const n = 1 + random(4);
  const temperature = n > 1 ? 1 : random(2);
  const max_tokens = 1 + random(24);
  const drawn = { n, temperature, max_tokens, min_tokens: random(max_tokens + 1) };
  return { model, messages, seed: random(1_000), logprobs: true, top_logprobs: 2, ...drawn };
}

/** Leaves in the middle of an answer. */
async function leave(service: TestService, body: Fields, headers: Headers): Promise<void> {
  const long = { ...body, stream: true, min_tokens: 300, max_tokens: 300 };
  const response = await service.call('POST', '/chat/completions', long, headers);
  const reader = response.body?.getReader();
  await reader?.read();
  await reader?.cancel();
}

t.test('two users of one engine', async (t) => {
  t.comment(`TEST_SEED=${seed}`);
  const weights = join(temporaryFolder(t), 'tiny.gguf');
  await writeTinyModel(weights, 'llama', { facts: [TINY_TEMPLATE] });
  const env = { PREFACE_ENGINE: 'llama', PREFACE_WEIGHTS: weights, PREFACE_SLOTS: '2' };
  const service = await openService(t, { ...env, PREFACE_THREADS: '1,1' });
  let colds = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const texts = Array.from({ length: 3 }, () => words(80 + random(120)));
    const users: User[] = [
      { name: 'alice', headers: {}, said: new Set(), caches: [] },
      { name: 'bob', headers: asBob, said: new Set(), caches: [] },
    ];
    const act = async (user: User, step: number): Promise<void> => {
      const text = texts[random(texts.length)] ?? '';
      const body = bodyOf(text);
      const kind = random(8);
      if (kind === 0) {
        const messages = [{ role: 'system', content: text }];
        const { id } = await createCache(service, { messages }, user.headers);
        user.caches.push({ id, text });
        user.said.add(text);
        return;
      }
      if (kind === 1) {
        user.said.add(text);
        return await leave(service, body, user.headers);
      }
      const isNew = !user.said.has(text);
      user.said.add(text);
      const cache = user.caches.find((each) => each.text === text);
      const named = cache ? { 'x-svc-context-cache': cache.id } : {};
      const told = await ask(service, body, { ...user.headers, ...named });
      const cold = await ask(service, { ...body, cache_salt: `cold ${colds++}` }, user.headers);
      const of = `seed ${seed}, round ${round}, step ${step}, ${user.name}`;
      t.equal(told.status, 200, of);
      t.same(told.answer, cold.answer, `${of}: the answer of one who is alone`);
      t.ok(cold.cachedTokens <= COMMON_TOKENS_MAX, `${of}: ${cold.cachedTokens} for a new owner`);
      if (isNew)
        t.ok(told.cachedTokens <= COMMON_TOKENS_MAX, `${of}: ${told.cachedTokens} of others`);
    };
    const all = users.map(async (user) => {
      for (let step = 0; step < STEPS; step += 1) await act(user, step);
    });
    await Promise.all(all);
  }
});
