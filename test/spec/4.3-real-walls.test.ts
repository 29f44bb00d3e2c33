/**
 * Owners are walls, on the real model: the prefix that one owner cached saves another nothing, and shows in no header.
 */
import t from 'tap';
import { asBob, ask, askWith, createCache, readyCache, said } from '../support/cache-client.js';
import { openService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(180_000);

const ONE_THREAD = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
const rooms = Array.from(
  { length: 12 },
  (_, at) => `The keeper of room ${at} holds key ${at * 7}.`,
);

t.test('the same prefix under another key', { skip: skipWithoutWeights }, async (t) => {
  const service = await openService(t, ONE_THREAD);
  const saved = async () => {
    const metrics = await fetch(service.url.replace('/v1', '/metrics'));
    const found = /^preface_saved_tokens_total\S* (\d+)$/m.exec(await metrics.text())?.[1];
    return Number(found ?? 0);
  };
  const prefix = { role: 'system', content: rooms.join(' ') };
  const messages = [prefix, said('Who holds key 14?')];
  const cache = await readyCache(service, { messages: [prefix], tags: ['walls'] });
  const hit = await askWith(service, cache.id, messages, { max_tokens: 2 });
  t.equal(hit.cache['token-saved'], `${cache.tokens}`);
  const before = await saved();
  t.ok(before >= cache.tokens);

  const refused = await askWith(service, cache.id, messages, { headers: asBob });
  t.match(refused, { status: 403, cache: {} });
  const plain = await ask(service, messages, asBob, { max_tokens: 2 });
  t.equal(plain.status, 200);
  t.equal(plain.text, hit.text, 'the answer is the same');
  t.strictSame(plain.cache, {});
  t.notOk('cached_tokens' in (plain.usage[0] ?? {}), 'nothing is said to be saved');
  t.notOk('prompt_tokens_details' in (plain.usage[0] ?? {}));
  t.equal(await saved(), before, 'and nothing was, by the count of the engine');
  t.equal((await createCache(service, { messages: [prefix] }, asBob)).status, 'pending');
});
