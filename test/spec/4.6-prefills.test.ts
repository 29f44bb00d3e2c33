/**
 * Prefills through the service: stopped with their cache, begun again with their engine, made anew when they got lost,
 * bounded for each owner, and of no use to any other owner.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import {
  asBob,
  ask,
  askWith,
  createCache,
  getCache,
  hitHeaders,
  openGated,
  readyCache,
  said,
  untilCache,
} from '../support/cache-client.js';
import { holdUp, letGo, prefillWas } from '../support/engine-gated.js';
import { enginePid } from '../support/engine-pid.js';
import { aliceKey } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const service = await openGated(t, { cachesPerOwner: 20 });
const { dataDir } = service;

function snapshots(): string[] {
  return readdirSync(join(dataDir, 'engine', 'echo-snapshots'));
}

t.test('a deleted cache stops its prefill in the engine', async (t) => {
  const { id } = await createCache(service, { messages: [said('/slow-deleted')] });
  await until(() => prefillWas('begun', dataDir, 'deleted'));
  t.equal((await service.call('DELETE', `/caching/${id}`)).status, 200);
  await until(() => prefillWas('stopped', dataDir, 'deleted'));
});

t.test('an engine that is killed under a prefill, and the cache becomes ready', async (t) => {
  const { id } = await createCache(service, { messages: [said('/slow-killed')] });
  await until(() => prefillWas('begun', dataDir, 'killed'));
  const pid = enginePid();
  t.ok(pid > 1);
  process.kill(pid, 'SIGKILL');
  letGo(dataDir, 'killed');
  const late = await createCache(service, { messages: [said('made meanwhile')] });
  await untilCache(service, id, { status: 'ready' });
  await untilCache(service, late.id, { status: 'ready' });
  t.ok(enginePid() !== pid, 'in another process');
});

t.test('a chat that found nothing to reuse makes the prefix be prefilled again', async (t) => {
  const prefix = said('/slow-again /lost');
  letGo(dataDir, 'again');
  const { id } = await readyCache(service, { messages: [prefix] });
  holdUp(dataDir, 'again');
  const other = { model: 'svc-v1-32k' };
  const elsewhere = await askWith(service, id, [prefix, said('Hi')], other);
  t.equal(elsewhere.cache.status, 'miss');
  t.equal((await getCache(service, id)).status, 'ready', 'another model makes its own');
  const asked = await askWith(service, id, [prefix, said('Hi')]);
  t.match(asked, { status: 200, text: 'Hi', cache: { status: 'miss' } });
  t.equal((await getCache(service, id)).status, 'pending');
  letGo(dataDir, 'again');
  await untilCache(service, id, { status: 'ready' });
});

t.test('what a chat made anew goes with it when its cache is deleted meanwhile', async (t) => {
  const before = snapshots();
  const prefix = said('short of life');
  const { id } = await readyCache(service, { messages: [prefix] });
  const [name = ''] = snapshots().filter((each) => !before.includes(each));
  const leave = new AbortController();
  const response = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${aliceKey}`,
      'content-type': 'application/json',
      'x-svc-context-cache': id,
    },
    body: JSON.stringify({ model: 'svc-v1-8k', messages: [prefix, said('/wait')], stream: true }),
    signal: leave.signal,
  });
  t.equal(response.headers.get('svc-context-cache-status'), 'hit');
  t.equal((await service.call('DELETE', `/caching/${id}`)).status, 200);
  await until(() => !snapshots().includes(name));
  writeFileSync(join(dataDir, 'engine', 'echo-snapshots', name), 'as the engine kept it');
  leave.abort();
  await until(() => !snapshots().includes(name));
});

t.test('an equal prefix of another owner is of no use', async (t) => {
  const prefix = said('/slow-walls a prefix that both have');
  letGo(dataDir, 'walls');
  const cache = await readyCache(service, { messages: [prefix] });
  holdUp(dataDir, 'walls');
  const chat = [prefix, said('Hi')];
  t.strictSame((await askWith(service, cache.id, chat)).cache, hitHeaders(cache));
  const uncached = (asked: Awaited<ReturnType<typeof ask>>) => {
    t.equal(asked.status, 200);
    t.notMatch(asked.usage, [{ cached_tokens: Number }]);
    t.equal(asked.cache['token-saved'], undefined);
  };
  const plain = await ask(service, chat, asBob);
  uncached(plain);
  t.strictSame(plain.cache, {});
  t.equal((await askWith(service, cache.id, chat, { headers: asBob })).status, 403);
  const unknown = await askWith(service, 'cache-aaaaaaaaaaaaaaaaaaaa', chat, { headers: asBob });
  uncached(unknown);
  t.equal(unknown.cache.nearest, undefined, 'nor is it named');
  const own = await createCache(service, { messages: [prefix] }, asBob);
  const pending = await askWith(service, own.id, chat, { headers: asBob });
  uncached(pending);
  t.match(pending.cache, { status: 'pending' });
  letGo(dataDir, 'walls');
  await untilCache(service, own.id, { status: 'ready' }, asBob);
});

t.test('an owner has so many caches as the settings say', async (t) => {
  let made = 0;
  let response = new Response();
  for (; made < 100; made++) {
    const body = { model: 'svc-v1', messages: [said(`number ${made}`)] };
    response = await service.call('POST', '/caching', body);
    if (response.status !== 200) break;
  }
  t.equal(response.status, 400);
  t.match(await response.json(), {
    error: { type: 'invalid_request_error', message: /at most 20 caches: delete some/ },
  });
  t.ok(made < 20);
  await createCache(service, { messages: [said('of bob')] }, asBob);
});
