/**
 * `cache_control` on the real model: what was kept is not evaluated again, by the count of the engine, and the answer is
 * that of a request without marks.
 */
import t from 'tap';
import { untilCache } from '../support/cache-client.js';
import { block, kept, type Message, messageOf, sendTo } from '../support/messages-client.js';
import { bobKey, openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(240_000);

const ONE_THREAD = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
const rooms = Array.from(
  { length: 12 },
  (_, at) => `The keeper of room ${at} holds key ${at * 7}.`,
).join(' ');
const user = (content: unknown) => ({ role: 'user', content });
const fields = (question: string) => ({
  max_tokens: 12,
  system: [block('You answer shortly.', { cache_control: kept })],
  messages: [user([block(rooms, { cache_control: kept }), block(question)])],
});

async function settled(service: TestService): Promise<number[]> {
  const response = await service.call('GET', '/caching?order=asc');
  const { data } = (await response.json()) as { data: { id: string; tokens: number }[] };
  for (const { id } of data) await untilCache(service, id, { status: 'ready' });
  return data.map(({ tokens }) => tokens);
}

t.test('a document in a message, then a restart', { skip: skipWithoutWeights }, async (t) => {
  const first = await openService(t, ONE_THREAD);
  const { usage } = await messageOf(first, fields('Who holds key 14?'));
  const tokens = await settled(first);
  t.equal(tokens.length, 2);
  t.equal(usage.cache_creation_input_tokens, tokens.at(-1));
  await first.close();
  // Nothing is in memory any more: what is reused comes from the disk.
  const again = await openService(t, { ...ONE_THREAD, PREFACE_DATA_DIR: first.dataDir });
  const second = await messageOf(again, fields('Which key is for room 3?'));
  t.equal(second.usage.cache_read_input_tokens, tokens.at(-1), 'all that was kept');
  t.equal(second.usage.cache_creation_input_tokens, 0);
  const asBob = { 'x-api-key': bobKey };
  const body = fields('Which key is for room 3?');
  const other = (await (await sendTo(again, '/messages', body, asBob)).json()) as Message;
  t.equal(other.usage.cache_read_input_tokens, 0);
  t.same(other.content, second.content, 'the answer of a cold run');
});
