/**
 * §4.3, reset-TTL: a chat that uses a cache says how long the cache lives on, counted from that chat.
 */
import t from 'tap';
import {
  type Asked,
  askBy,
  askWith,
  createCache,
  getCache,
  hitHeaders,
  nowS,
  openGated,
  readyCache,
  type ShownCache,
  said,
  untilCache,
} from '../support/cache-client.js';
import { type Fields, model } from '../support/chat-client.js';
import { letGo } from '../support/engine-gated.js';
import { aliceKey } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const service = await openGated(t);
const resetHeader = (seconds: number) => ({ 'x-svc-context-cache-reset-ttl': String(seconds) });
let made = 0;

/** A prefix nobody else has, and its cache, alive for ten minutes. */
async function newCache(): Promise<{ cache: ShownCache; prefix: readonly unknown[] }> {
  const prefix = [said(`prefix number ${made++}`)];
  return { cache: await readyCache(service, { messages: prefix, ttl: 600 }), prefix };
}

const ways: Readonly<
  Record<
    string,
    (id: string, prefix: readonly unknown[], ttl: number, more?: Fields) => Promise<Asked>
  >
> = {
  header: (id, prefix, ttl, more = {}) =>
    askWith(service, id, [...prefix, said('Hi')], { ...more, headers: resetHeader(ttl) }),
  message: (id, _prefix, ttl, more = {}) =>
    askBy(service, `cache_id=${id};reset_ttl=${ttl}`, [said('Hi')], more),
  headerAndMessage: (id, _prefix, ttl, more = {}) =>
    askBy(service, `cache_id=${id}`, [said('Hi')], { ...more, headers: resetHeader(ttl) }),
  messageOverHeader: (id, _prefix, ttl, more = {}) =>
    askBy(service, `cache_id=${id};reset_ttl=${ttl}`, [said('Hi')], {
      ...more,
      headers: resetHeader(1234),
    }),
};

for (const [way, use] of Object.entries(ways)) {
  t.test(`${way}: request time plus the value, shorter or longer than before`, async (t) => {
    const { cache, prefix } = await newCache();
    for (const stream of [false, true]) {
      for (const ttl of [60, 3600]) {
        const beganS = nowS();
        const asked = await use(cache.id, prefix, ttl, { stream });
        const expiredAtS = Number(asked.cache['token-exp']);
        t.ok(expiredAtS >= beganS + ttl && expiredAtS <= nowS() + ttl, 'not the old time plus it');
        t.strictSame(asked.cache, hitHeaders(cache, expiredAtS), 'the new time is told');
        const { expired_at, status } = await getCache(service, cache.id);
        t.equal(expired_at, expiredAtS, 'and is the one of the cache, once the answer is there');
        t.equal(status, 'ready');
      }
    }
    const { expired_at } = await getCache(service, cache.id);
    await askWith(service, cache.id, [...prefix, said('Hi')]);
    t.equal(
      (await getCache(service, cache.id)).expired_at,
      expired_at,
      'only when it is asked for',
    );
  });

  t.test(`${way}: while it is pending`, async (t) => {
    const name = `pending_${way}`;
    const prefix = [said(`/slow-${name}`)];
    const { id } = await createCache(service, { messages: prefix, ttl: 600 });
    const beganS = nowS();
    const asked = await use(id, prefix, 60);
    t.equal(asked.cache.status, 'pending');
    const after = await getCache(service, id);
    t.equal(after.status, 'pending');
    t.ok(after.expired_at >= beganS + 60 && after.expired_at <= nowS() + 60);
    letGo(service.dataDir, name);
    await untilCache(service, id, { status: 'ready', expired_at: after.expired_at });
  });

  t.test(`${way}: an expired cache is a miss now, pending, and ready again`, async (t) => {
    const name = `expired_${way}`;
    const prefix = [said(`/slow-${name}`)];
    const { id, tokens } = await createCache(service, { messages: prefix, ttl: 1 });
    await untilCache(service, id, { status: 'inactive' });
    const beganS = nowS();
    const asked = await use(id, prefix, 600);
    t.strictSame(asked.cache, { status: 'expired', 'miss-reason': 'the cache has expired' });
    t.equal(asked.text, 'Hi');
    t.notOk('cached_tokens' in (asked.usage[0] ?? {}), 'at full price');
    const after = await getCache(service, id);
    t.match(after, { status: 'pending', tokens });
    t.ok(after.expired_at >= beganS + 600 && after.expired_at <= nowS() + 600);
    letGo(service.dataDir, name);
    const ready = await untilCache(service, id, { status: 'ready' });
    t.equal(ready.expired_at, after.expired_at);
    t.strictSame((await use(id, prefix, 600)).cache.status, 'hit');
  });

  t.test(`${way}: a chat that failed resets nothing`, async (t) => {
    const { cache, prefix } = await newCache();
    const fail = said('/fail in the middle');
    const asked =
      way === 'header'
        ? await askWith(service, cache.id, [...prefix, fail], { headers: resetHeader(60) })
        : await askBy(service, `cache_id=${cache.id};reset_ttl=60`, [fail]);
    t.equal(asked.status, 500);
    await t.rejects(
      way === 'header'
        ? askWith(service, cache.id, [...prefix, fail], { headers: resetHeader(60), stream: true })
        : askBy(service, `cache_id=${cache.id};reset_ttl=60`, [fail], { stream: true }),
      /ends with/,
    );
    t.equal((await getCache(service, cache.id)).expired_at, cache.expired_at);
  });
}

t.test('the snapshot of an expired cache is gone, and made again', async (t) => {
  const prefix = [said('made twice')];
  const { id } = await createCache(service, { messages: prefix, ttl: 1 });
  await untilCache(service, id, { status: 'inactive' });
  const headers = resetHeader(600);
  t.equal(
    (await askWith(service, id, [...prefix, said('Hi')], { headers })).cache.status,
    'expired',
  );
  const ready = await untilCache(service, id, { status: 'ready' });
  const asked = await askWith(service, id, [...prefix, said('Hi')]);
  t.strictSame(asked.cache, hitHeaders(ready));
});

t.test('a mismatch, an error and a refusal reset nothing', async (t) => {
  const { cache, prefix } = await newCache();
  const headers = resetHeader(60);
  const other = await askWith(service, cache.id, [said('other'), said('Hi')], { headers });
  t.equal(other.cache.status, 'miss');
  const more = { headers, max_tokens: 8192 };
  t.equal((await askWith(service, cache.id, [...prefix, said('Hi')], more)).status, 400);
  t.equal((await getCache(service, cache.id)).expired_at, cache.expired_at);
  const { id } = await createCache(service, { messages: [said('late')], expired_at: 1 });
  await untilCache(service, id, { status: 'error' });
  const late = await askWith(service, id, [said('late'), said('Hi')], { headers });
  t.equal(late.cache.status, 'error');
  t.match(await getCache(service, id), { status: 'error', expired_at: 1 });
});

t.test('an expired mismatch stays expired', async (t) => {
  const { id } = await createCache(service, { messages: [said('to expire')], ttl: 1 });
  await untilCache(service, id, { status: 'inactive' });
  const chat = [said('another'), said('Hi')];
  const asked = await askWith(service, id, chat, { headers: resetHeader(60) });
  t.equal(asked.cache.status, 'miss');
  t.equal((await getCache(service, id)).status, 'inactive');
});

async function chatsRun(count: number): Promise<boolean> {
  const metrics = await fetch(new URL('/metrics', service.url));
  return (await metrics.text()).includes(`\npreface_chats_running ${count}\n`);
}

/** Asks for an answer that never ends, and leaves: a stream after its headers, else once the engine works on it. */
async function leave(id: string, prefix: readonly unknown[], stream: boolean): Promise<void> {
  await until(() => chatsRun(0));
  const left = new AbortController();
  const response = fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${aliceKey}`,
      'x-svc-context-cache': id,
      ...resetHeader(60),
    },
    body: JSON.stringify({ model, messages: [...prefix, said('/wait')], stream }),
    signal: left.signal,
  });
  response.catch(() => {});
  if (stream) await response;
  else await until(() => chatsRun(1));
  left.abort();
  await response.then(
    (opened) => opened.text().catch(() => {}),
    () => {},
  );
}

t.test('also when the client left early', async (t) => {
  for (const stream of [true, false]) {
    const { cache, prefix } = await newCache();
    const beganS = nowS();
    await leave(cache.id, prefix, stream);
    const moved = async (): Promise<number | null> => {
      const { expired_at } = await getCache(service, cache.id);
      return expired_at === cache.expired_at ? null : expired_at;
    };
    const expired_at = Number(await until(moved));
    t.ok(expired_at >= beganS + 60 && expired_at <= nowS() + 60, `stream ${stream}: ${expired_at}`);
  }
});
