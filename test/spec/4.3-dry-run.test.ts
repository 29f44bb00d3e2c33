/**
 * §4.3, dry run: what a chat would make of a cache, without inference, without tokens, without a change.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { decodeRecord } from '../../src/codec.js';
import { serve } from '../../src/main.js';
import { Host } from '../../src/pool/host.js';
import type { AccountRecord } from '../../src/rules/account.js';
import { loadConfig } from '../../src/settings/config.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';
import {
  type Asked,
  asBob,
  ask,
  askBy,
  askWith,
  createCache,
  getCache,
  hitHeaders,
  openGated,
  readyCache,
  said,
  untilCache,
} from '../support/cache-client.js';
import { said as chatOf, model, openProbe } from '../support/chat-client.js';
import { letGo } from '../support/engine-gated.js';
import { notes } from '../support/engine-probe.js';
import { aliceKey, openService, serviceEnv, temporaryFolder } from '../support/service.js';

t.setTimeout(120_000);

const service = await openGated(t);
const dryHeader = { 'x-svc-context-cache-dryrun': '1' };
const dry = { headers: dryHeader };

const [one, two, three] = [said('one is first'), said('two is second'), said('three is third')];
const short = await readyCache(service, { messages: [one], tags: ['short'] });
const long = await readyCache(service, { messages: [one, two] });

/** JSON, empty, at no price, and as long as the chat would have been. */
function checkDry(t: Test, asked: Asked, promptTokens: number | undefined): void {
  t.equal(asked.status, 200, `${asked.error}`);
  t.equal(asked.contentType, 'application/json');
  t.equal(asked.text, '');
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: 0,
    total_tokens: promptTokens,
  };
  t.strictSame(asked.usage, [usage]);
}

t.test('by header and by message, also with stream and n', async (t) => {
  const whole = await ask(service, [one, said('Hi')]);
  const promptTokens = whole.usage[0]?.prompt_tokens;
  for (const more of [{}, { stream: true }, { n: 3, temperature: 1 }, { max_tokens: 1 }]) {
    const byHeader = await askWith(service, short.id, [one, said('Hi')], { ...more, ...dry });
    checkDry(t, byHeader, promptTokens);
    t.strictSame(byHeader.cache, hitHeaders(short), 'as a run would say it');
    for (const name of [`cache_id=${short.id}`, 'tag=short']) {
      const byMessage = await askBy(service, `dry_run=1;${name}`, [said('Hi')], more);
      checkDry(t, byMessage, promptTokens);
      t.strictSame(byMessage.cache, hitHeaders(short));
      const byBoth = await askBy(service, name, [said('Hi')], { ...more, ...dry });
      checkDry(t, byBoth, promptTokens);
      t.strictSame(byBoth.cache, hitHeaders(short), 'the header counts beside the message');
    }
  }
});

t.test('what the message says itself wins over the header', async (t) => {
  const run = await askBy(service, 'tag=short;dry_run=0', [said('Hi')], dry);
  t.equal(run.text, 'Hi');
  const headers = { 'x-svc-context-cache-dryrun': '0' };
  t.equal((await askBy(service, 'tag=short;dry_run=1', [said('Hi')], { headers })).text, '');
});

t.test('the body is a chat completion', async (t) => {
  const headers = { ...dryHeader, 'x-svc-context-cache': short.id };
  const body = { model, messages: [one, said('Hi')], stream: true };
  const response = await service.call('POST', '/chat/completions', body, headers);
  const { id, created, usage, ...rest } = (await response.json()) as Record<string, unknown>;
  t.match(id, /^chatcmpl-[0-9a-f]{32}$/);
  t.type(created, 'number');
  t.ok(usage);
  t.strictSame(rest, {
    object: 'chat.completion',
    model,
    choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'stop' }],
  });
});

t.test('0 is a real run', async (t) => {
  const headers = { 'x-svc-context-cache-dryrun': '0' };
  t.equal((await askWith(service, short.id, [one, said('Hi')], { headers })).text, 'Hi');
  t.equal((await askBy(service, 'tag=short;dry_run=0')).text, 'Hi');
});

t.test('a miss tells its reason, as a run would', async (t) => {
  const pending = await createCache(service, { messages: [said('/slow-dry')] });
  const late = await createCache(service, { messages: [one], expired_at: 1 });
  await untilCache(service, late.id, { status: 'error' });
  const cases = [
    [short.id, [two], 'miss'],
    [`cache-${'c'.repeat(20)}`, [one], 'unknown'],
    [pending.id, [said('/slow-dry')], 'pending'],
    [late.id, [one], 'error'],
  ] as const;
  for (const [id, prefix, status] of cases) {
    const chat = [...prefix, said('Hi')];
    const asked = await askWith(service, id, chat, dry);
    const run = await askWith(service, id, chat);
    const { nearest, ...told } = asked.cache;
    t.strictSame(told, run.cache, status);
    t.equal(told.status, status);
    checkDry(t, asked, run.usage[0]?.prompt_tokens);
  }
  letGo(service.dataDir, 'dry');
});

t.test('the nearest other cache that would fit better', async (t) => {
  const chat = [one, two, three];
  const nearest = async (id: string, messages: readonly unknown[] = chat) =>
    (await askWith(service, id, messages, dry)).cache.nearest;
  t.equal(await nearest(short.id), long.id, 'a hit, and a longer one');
  t.equal(await nearest(long.id), undefined, 'nothing fits better');
  t.equal(await nearest(`cache-${'c'.repeat(20)}`), long.id, 'unknown');
  t.equal(await nearest(long.id, [one, three]), short.id, 'a miss, and a shorter one that fits');
  t.equal(await nearest(short.id, [three]), undefined, 'nothing fits at all');
  const none = await ask(service, chat, dryHeader);
  t.strictSame(
    none.cache,
    { status: 'miss', 'miss-reason': 'no cache was named', nearest: long.id },
    'none was named',
  );
  const byMessage = await askBy(service, `cache_id=${short.id};dry_run=1`, [two, three]);
  t.strictSame(byMessage.cache, { ...hitHeaders(short), nearest: long.id });
  const run = await askWith(service, short.id, chat);
  t.notOk(run.cache.nearest, 'only a dry run looks for it');
});

t.test('the nearest is never the named one', async (t) => {
  const prefix = [said('/slow-near'), two];
  const pending = await createCache(service, { messages: prefix });
  const asked = await askWith(service, pending.id, [...prefix, three], dry);
  t.match(asked.cache, { status: 'pending' });
  t.equal(asked.cache.nearest, undefined);
  const begin = await createCache(service, { messages: prefix.slice(0, 1) });
  const again = await askWith(service, pending.id, [...prefix, three], dry);
  t.equal(again.cache.nearest, begin.id, 'but another one, though it holds less');
  letGo(service.dataDir, 'near');
});

t.test("the nearest is never another owner's, an expired or a deleted one", async (t) => {
  const chat = [said('mine alone'), said('Hi')];
  const own = await readyCache(service, { messages: chat.slice(0, 1) });
  const theirs = await ask(service, chat, { ...dryHeader, ...asBob });
  t.strictSame(theirs.cache, { status: 'miss', 'miss-reason': 'no cache was named' });
  t.equal((await ask(service, chat, dryHeader)).cache.nearest, own.id);
  await service.call('DELETE', `/caching/${own.id}`);
  t.equal((await ask(service, chat, dryHeader)).cache.nearest, undefined);
});

t.test('refused as a run would be', async (t) => {
  const foreign = { headers: { ...dryHeader, ...asBob } };
  t.equal((await askWith(service, short.id, [one, two], foreign)).status, 403);
  t.equal((await askBy(service, 'tag=none;dry_run=1')).status, 404);
  const long = await askWith(service, short.id, [one, two], { ...dry, max_tokens: 8192 });
  t.match(long, { status: 400, error: 'Your request exceeded model token limit : 8192' });
  t.equal((await ask(service, [], dryHeader)).status, 400);
});

t.test('it resets no expiry and says the one there is', async (t) => {
  const headers = { ...dryHeader, 'x-svc-context-cache-reset-ttl': '60' };
  const asked = await askWith(service, short.id, [one, two], { headers });
  t.equal(asked.cache['token-exp'], String(short.expired_at));
  const byMessage = await askBy(service, 'tag=short;reset_ttl=60;dry_run=1');
  t.equal(byMessage.cache['token-exp'], String(short.expired_at));
  t.equal((await getCache(service, short.id)).expired_at, short.expired_at);
});

t.test('the engine hears nothing of it', async (t) => {
  const probe = await openProbe(t);
  await ask(probe, [said('a real run')]);
  await ask(probe, [said('a dry run')], dryHeader);
  await ask(probe, [said('a dry run, streamed')], dryHeader, { stream: true });
  await ask(probe, [said('another real run')]);
  const begun = notes(probe.dataDir).filter(({ event }) => event === 'begin');
  t.strictSame(
    begun.map(({ text }) => text),
    ['a real run', 'another real run'],
  );
});

t.test('a request, but no token, on the account', async (t) => {
  const dataDir = temporaryFolder(t);
  const running = await serve(loadConfig({ flags: {}, env: serviceEnv(dataDir) }), () => {});
  const call = (headers: object) =>
    fetch(`${running.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${aliceKey}`, ...headers },
      body: JSON.stringify(chatOf('Hi')),
    });
  const { usage } = (await (await call({})).json()) as { usage: { prompt_tokens: number } };
  for (let i = 0; i < 3; i++) t.equal((await call(dryHeader)).status, 200);
  await running.close();
  const store = LmdbStore.open({ folder: dataDir, name: 'records', exclusive: true });
  const record = store.get(['account', 'alice']);
  await store.close();
  const { today } = decodeRecord<AccountRecord>(record?.value ?? new Uint8Array(0));
  t.match(today, { requests: 4, promptTokens: usage.prompt_tokens, completionTokens: 2 });
});

t.test('a hit is foretold only where the engine holds the prefix', async (t) => {
  const own = await openService(t);
  const messages = [said('the prefix of this cache')];
  const cache = await readyCache(own, { messages });
  const chat = [...messages, said('Hi')];
  const promised = await askWith(own, cache.id, chat, dry);
  t.equal(promised.cache.status, 'hit');
  // What the engine keeps is gone, and the service has not heard of it.
  const folder = join(own.dataDir, 'engine');
  for (const name of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (name.isFile()) rmSync(join(name.parentPath, name.name));
  }
  const foretold = await askWith(own, cache.id, chat, dry);
  t.equal(foretold.cache.status, 'miss');
  t.match(foretold.cache['miss-reason'], /does not hold the prefix for this model/);
  const { inBucket } = Host.prototype;
  Host.prototype.inBucket = () => true;
  t.teardown(() => {
    Host.prototype.inBucket = inBucket;
  });
  const elsewhere = await askWith(own, cache.id, chat, dry);
  t.equal(elsewhere.cache.status, 'miss');
  t.match(elsewhere.cache['miss-reason'], /and the bucket does: a chat would fetch it/);
  const asked = await askWith(own, cache.id, chat);
  t.equal(asked.cache.status, 'miss', 'and so it is');
});
