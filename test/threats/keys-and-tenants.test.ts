/**
 * Holes that comparable servers had in telling one user from another: parts of keys, ids of requests and texts of others as
 * keys of what is remembered, and prefixes of others that show in what an answer costs.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { asBob, ask, askBy, askWith, readyCache, said as saying } from '../support/cache-client.js';
import { type complete, said } from '../support/chat-client.js';
import { aliceKey, bobKey, openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(0);

const longKey = `sk-${'k'.repeat(61)}`;
const service = await openService(t, {
  PREFACE_API_KEYS: `alice:${aliceKey},bob:${bobKey},carol:${longKey}`,
});

async function ownerOf(service: TestService, key: string): Promise<string> {
  const authorization = `Bearer ${key}`;
  const response = await service.call('GET', '/caching', undefined, { authorization });
  const text = await response.text();
  return `${response.status} ${text}`;
}

t.test('a key is right as a whole: no part of it, no other ending, no other case', async (t) => {
  // Each is asked after the right one, which is remembered by then.
  t.match(await ownerOf(service, longKey), /^200 /);
  const near = [
    ...[1, 8, 20, 63].map((length) => longKey.slice(0, length)),
    `${longKey}k`,
    `${longKey.slice(0, -1)}l`,
    longKey.toUpperCase(),
    ` ${longKey}x`,
    `${longKey}\t`.trimEnd().slice(1),
  ];
  for (const key of near) t.match(await ownerOf(service, key), /^401 /, key);
  t.match(await ownerOf(service, longKey), /^200 /, 'and the right one still is');
});

t.test('wrong, unknown and nearly right keys get the very same answer', async (t) => {
  const answers = new Set<string>();
  const statements = [
    "' OR '1'='1",
    "x'; DROP TABLE records; --",
    'x" UNION SELECT 1 --',
    '$1',
    '%',
  ];
  const near = ['x', longKey.slice(0, -1), 'sk-alice-0', bobKey.slice(1)];
  for (const key of [...near, ...statements]) {
    answers.add(await ownerOf(service, key));
  }
  t.equal(answers.size, 1);
});

t.test('keys are looked up by hash: no key lies on the disk', async (t) => {
  const folder = service.dataDir;
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  let bytes = 0;
  for (const file of files.filter((each) => each.isFile())) {
    const content = readFileSync(join(file.parentPath, file.name));
    bytes += content.length;
    for (const key of [aliceKey, bobKey, longKey]) t.notOk(content.includes(key), file.name);
  }
  t.ok(bytes > 0);
});

t.test(
  'an id that a client gives its request is a name in the log, and nothing else',
  async (t) => {
    const headers = { 'x-request-id': 'the-same-for-all' };
    const answers = await Promise.all([
      ask(service, [saying('of alice')], headers),
      ask(service, [saying('of bob')], { ...headers, ...asBob }),
      ask(service, [saying('another of alice')], headers),
    ]);
    t.same(
      answers.map(({ text }) => text),
      ['of alice', 'of bob', 'another of alice'],
    );
  },
);

t.test(
  "another user's cache: refused by id, unknown by tag, and no hit for the same text",
  async (t) => {
    const messages = [saying(`a long prefix ${'x'.repeat(500)}`)];
    const cache = await readyCache(service, { messages, tags: ['mine'] });
    const asked = [...messages, saying('and now?')];
    t.equal((await askWith(service, cache.id, asked, { headers: asBob })).status, 403);
    t.equal(
      (await askBy(service, `cache_id=${cache.id}`, undefined, { headers: asBob })).status,
      403,
    );
    t.equal((await askBy(service, 'tag=mine', undefined, { headers: asBob })).status, 404);
    for (const [method, path] of [
      ['GET', `/caching/${cache.id}`],
      ['PUT', `/caching/${cache.id}`],
      ['DELETE', `/caching/${cache.id}`],
    ] as const) {
      const body = method === 'PUT' ? {} : undefined;
      t.equal((await service.call(method, path, body, asBob)).status, 403, method);
    }
    const own = await readyCache(service, { messages }, asBob);
    t.not(own.id, cache.id);
    const hit = await askWith(service, own.id, asked, { headers: asBob });
    t.match(hit.cache, { status: 'hit', id: own.id });
  },
);

t.test(
  "another user's prompt saves nothing: all of its tokens are evaluated again",
  { skip: skipWithoutWeights },
  async (t) => {
    const real = await openReal(t);
    const body = said(`${'The harbour opens at six. '.repeat(30)}When?`, { max_tokens: 1 });
    const cached = async (key: string) => {
      const authorization = `Bearer ${key}`;
      const response = await real.call('POST', '/chat/completions', body, { authorization });
      const { usage } = (await response.json()) as Awaited<ReturnType<typeof complete>>;
      return usage.prompt_tokens_details?.cached_tokens ?? 0;
    };
    t.equal(await cached(aliceKey), 0, 'cold');
    t.equal(await cached(bobKey), 0, "after alice's");
    t.ok((await cached(aliceKey)) > 100, 'the own prefix is reused');
  },
);

function openReal(t: Test): Promise<TestService> {
  return openService(t, { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' });
}
