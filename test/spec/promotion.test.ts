/**
 * Promotion on the real model: a prefix of plain chats that came again is on disk, survives a restart, and is its owner's alone.
 */
import t from 'tap';
import { asBob } from '../support/cache-client.js';
import { openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { until } from '../support/until.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(300_000);

const ONE_THREAD = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
const rules = Array.from(
  { length: 60 },
  (_, at) => `The keeper of room ${at} holds key ${at * 7}.`,
).join(' ');

interface Said {
  readonly cached: number;
  readonly text: string;
}

async function ask(service: TestService, question: string, headers = {}): Promise<Said> {
  const messages = [
    { role: 'system', content: rules },
    { role: 'user', content: question },
  ];
  const body = { model: 'svc-v1-8k', messages, max_tokens: 8 };
  const response = await service.call('POST', '/chat/completions', body, headers);
  const { choices, usage } = (await response.json()) as {
    choices: { message: { content: string } }[];
    usage: { cached_tokens?: number };
  };
  return { cached: usage.cached_tokens ?? 0, text: choices[0]?.message.content ?? '' };
}

interface Shown {
  readonly status: string;
  readonly tokens: number;
  readonly metadata: object;
}

async function caches(service: TestService, headers = {}): Promise<Shown[]> {
  const response = await service.call('GET', '/caching', undefined, headers);
  return ((await response.json()) as { data: Shown[] }).data;
}

t.test('what came again is kept without a name', { skip: skipWithoutWeights }, async (t) => {
  const first = await openService(t, ONE_THREAD);
  for (const question of ['Who holds key 7?', 'Who holds key 14?']) await ask(first, question);
  t.strictSame(await caches(first), [], 'once is chance');
  await ask(first, 'Who holds key 21?');
  const ready = async () => (await caches(first)).find(({ status }) => status === 'ready') ?? false;
  const kept = await until(ready, 60_000, 'the prefix is kept');
  if (!kept) throw new Error('it was waited for');
  t.strictSame(kept.metadata, { promoted: 'true' });
  await ask(first, 'Who holds key 28?');
  t.equal((await caches(first)).length, 1, 'once for all of them');
  await first.close();

  const same = { ...ONE_THREAD, PREFACE_DATA_DIR: first.dataDir };
  const second = await openService(t, same);
  const mine = await ask(second, 'Who holds key 35?');
  t.equal(mine.cached, kept.tokens, 'all of it comes from the disk');
  t.strictSame(await caches(second, asBob), [], 'nobody else has it');
  await second.close();

  const off = await openService(t, { ...same, PREFACE_PROMOTE: 'false' });
  const cold = await ask(off, 'Who holds key 35?');
  t.equal(cold.cached, 0);
  t.equal(cold.text, mine.text, 'the answer of a cold run');
});
