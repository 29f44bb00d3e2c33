/**
 * What is gone on from on the real model: the prefix is not evaluated again, by the count of the engine, also after a
 * restart, and the answer is that of a cold run.
 */
import t from 'tap';
import { untilCache } from '../support/cache-client.js';
import { read, responseOf, send, textOf } from '../support/responses-client.js';
import { bobKey, openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(240_000);

const ONE_THREAD = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
const rooms = Array.from(
  { length: 12 },
  (_, at) => `The keeper of room ${at} holds key ${at * 7}.`,
).join(' ');
const short = { max_output_tokens: 12 };
const user = (content: string) => ({ role: 'user', content });

async function keptTokens(service: TestService): Promise<number[]> {
  const response = await service.call('GET', '/caching?order=asc');
  const { data } = (await response.json()) as { data: { id: string; tokens: number }[] };
  for (const { id } of data) await untilCache(service, id, { status: 'ready' });
  return data.map(({ tokens }) => tokens);
}

t.test(
  'responses that follow each other, and a restart',
  { skip: skipWithoutWeights },
  async (t) => {
    const service = await openService(t, ONE_THREAD);
    const first = await responseOf(service, { ...short, input: rooms });
    t.equal(first.usage.input_tokens_details.cache_write_tokens, 0, 'nobody asked to keep it');
    const second = await responseOf(service, {
      ...short,
      previous_response_id: first.id,
      input: 'Who holds key 14?',
    });
    const { input_tokens: prompt, input_tokens_details: details } = second.usage;
    t.ok(
      details.cached_tokens >= first.usage.input_tokens,
      `${details.cached_tokens} of ${prompt} tokens were in memory`,
    );
    const [kept = 0, ...more] = await keptTokens(service);
    t.equal(more.length, 0);
    t.equal(details.cache_write_tokens, kept - details.cached_tokens);
    await service.close();
    // Nothing is in memory any more: what is reused comes from the disk.
    const again = await openService(t, { ...ONE_THREAD, PREFACE_DATA_DIR: service.dataDir });
    const third = await responseOf(again, {
      ...short,
      previous_response_id: second.id,
      input: 'Which key is for room 3?',
    });
    t.equal(third.usage.input_tokens_details.cached_tokens, kept, 'all that was kept');
    const input = [
      user(rooms),
      ...first.output,
      user('Who holds key 14?'),
      ...second.output,
      user('Which key is for room 3?'),
    ];
    const cold = await read(await send(again, { ...short, input }, bobKey));
    t.equal(cold.usage.input_tokens, third.usage.input_tokens);
    t.equal(cold.usage.input_tokens_details.cached_tokens, 0);
    t.equal(textOf(third), textOf(cold), 'the answer of a cold run');
  },
);

t.test(
  'a conversation keeps its prefix from its first response on',
  { skip: skipWithoutWeights },
  async (t) => {
    const service = await openService(t, ONE_THREAD);
    const { id } = await read(await service.call('POST', '/conversations', {}));
    await responseOf(service, { ...short, conversation: id, input: rooms });
    const [kept = 0] = await keptTokens(service);
    await service.close();
    const again = await openService(t, { ...ONE_THREAD, PREFACE_DATA_DIR: service.dataDir });
    const next = await responseOf(again, {
      ...short,
      conversation: id,
      input: 'Who holds key 14?',
    });
    t.ok(kept > 100);
    t.equal(next.usage.input_tokens_details.cached_tokens, kept);
  },
);
