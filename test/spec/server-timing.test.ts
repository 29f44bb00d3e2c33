/**
 * Where the time of a chat went, as its client is told: all of it with a whole answer, what is known with a stream.
 */
import t from 'tap';
import { readyCache } from '../support/cache-client.js';
import { post, said } from '../support/chat-client.js';
import { begun, openSingle } from '../support/engine-turns.js';
import { until } from '../support/until.js';

const service = await openSingle(t);

/** Names in order, each with its milliseconds. */
function spans(response: Response): Map<string, number> {
  const text = response.headers.get('server-timing') ?? '';
  return new Map(
    text.split(', ').map((entry) => {
      const [, name = entry, ms] = /^([a-z]+);dur=(\d+(?:\.\d)?)$/.exec(entry) ?? [];
      return [name, Number(ms)];
    }),
  );
}

t.test('a whole answer names every span, and none is longer than the whole', async (t) => {
  const beganMs = performance.now();
  const response = await post(service, said('one two three'));
  await response.text();
  const found = spans(response);
  t.same([...found.keys()], ['queue', 'tokenize', 'cache', 'prefill', 'generate']);
  const sum = [...found.values()].reduce((all, ms) => all + ms, 0);
  t.ok(sum > 0 && sum <= performance.now() - beganMs + 1, `${sum} ms`);
  t.equal(found.get('cache'), 0, 'it named none');
});

t.test('a stream names what is known before its first token', async (t) => {
  const response = await post(service, said('one two three', { stream: true }));
  t.same([...spans(response).keys()], ['queue', 'tokenize', 'cache']);
  await response.text();
});

t.test('waiting for a place is queue, looking for a cache is cache', async (t) => {
  const first = await post(service, said('/wait', { stream: true }));
  const before = begun(service).length;
  const second = post(service, said('later'));
  const figures = async () => await (await fetch(new URL('/metrics', service.url))).text();
  await until(async () => /^preface_queue_chats\{.*\} 1$/m.test(await figures()));
  const seenMs = performance.now();
  await until(() => performance.now() > seenMs + 20);
  t.equal(begun(service).length, before);
  const waitedMs = performance.now() - seenMs;
  await first.body?.cancel();
  t.ok(
    (spans(await second).get('queue') ?? 0) >= Math.floor(waitedMs),
    'at least while it was seen',
  );
  const messages = [{ role: 'system', content: 'a long prefix '.repeat(300) }];
  const cache = await readyCache(service, { messages });
  const body = { ...said('hi'), messages: [...messages, { role: 'user', content: 'hi' }] };
  const headers = { 'X-Svc-Context-Cache': cache.id };
  const named = await service.call('POST', '/chat/completions', body, headers);
  t.equal(named.headers.get('svc-context-cache-status'), 'hit');
  t.ok((spans(named).get('cache') ?? 0) > 0);
});

t.test('a refusal has no times', async (t) => {
  const response = await post(service, said(''));
  t.equal(response.status, 400);
  t.equal(response.headers.get('server-timing'), null);
});
