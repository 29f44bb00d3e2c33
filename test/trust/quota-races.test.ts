/**
 * Owns the proof that bounds on what an account keeps hold under any mix of requests at the same time, and that no room is lost.
 * It must never say more of an order than its seed does: which of two requests comes first is the machine's.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Random, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import type { Fields } from '../support/chat-client.js';
import { form, purpose, send } from '../support/file-client.js';
import { openService, type TestService, temporaryFolder } from '../support/service.js';

t.setTimeout(240_000);

const ADMIN = 'operator-key-0123456789';
const MAX = { files: 6, file_bytes: 40_000, tags: 8, conversations: 5, conversation_bytes: 20_000 };
const CACHES_MAX = 7;
const [ROUNDS, AT_ONCE] = [12, 24];
/** What is drawn, and the order of the requests, decide how often a bound is met: rounds go on until it was often enough. */
const [MET_MIN, ROUNDS_MAX] = [20, 100];

async function opened(t: Test, dataDir?: string): Promise<TestService> {
  const file = join(temporaryFolder(t), 'settings.json');
  const { file_bytes: fileBytes, conversation_bytes: conversationBytes, ...counts } = MAX;
  const alice = { ...counts, fileBytes, conversationBytes };
  const settings = { limits: { cachesPerOwner: CACHES_MAX }, accounts: { users: { alice } } };
  writeFileSync(file, JSON.stringify(settings));
  const env = { PREFACE_CONFIG: file, PREFACE_ADMIN_KEY: ADMIN };
  return await openService(t, dataDir === undefined ? env : { ...env, PREFACE_DATA_DIR: dataDir });
}

async function kept(service: TestService): Promise<Record<keyof typeof MAX, number>> {
  const url = new URL('/admin/v1/users/alice', service.url);
  const response = await fetch(url, { headers: { authorization: `Bearer ${ADMIN}` } });
  return ((await response.json()) as { kept: Record<keyof typeof MAX, number> }).kept;
}

async function idsAt(service: TestService, path: string, name = 'id'): Promise<string[]> {
  const response = await service.call('GET', `${path}?limit=100`);
  const { data } = (await response.json()) as { data: Fields[] };
  return data.map((item) => String(item[name]));
}

/** What is there before a round: requests of the round may find that it has gone. */
interface Known {
  readonly files: readonly string[];
  readonly caches: readonly string[];
  readonly tags: readonly string[];
  readonly conversations: Set<string>;
}

function request(service: TestService, known: Known, random: Random): Promise<Response> {
  const pick = (ids: readonly string[]) => ids[random(ids.length)] ?? 'none';
  const text = (bytes: number) => String(random(9)).repeat(1 + random(bytes));
  const message = () => ({ role: 'user', content: text(900) });
  const tag = `tag-${'abcdefghijkl'[random(12)]}`;
  const conversation = `/conversations/${pick([...known.conversations])}`;
  const made = { model: 'svc-v1', messages: [message()] };
  const kinds: readonly (() => Promise<Response>)[] = [
    // Few contents, so that some files are equal.
    () => send(service, form([purpose, ['file', String(random(4)).repeat(9_000), 'a.txt']])),
    () => send(service, form([purpose, ['file', text(9_000), 'a.txt']])),
    () => service.call('DELETE', `/files/${pick(known.files)}`),
    () => service.call('POST', '/caching', made),
    () => service.call('POST', '/caching', { ...made, tags: [tag, `${tag}-x`] }),
    () => service.call('PUT', `/caching/${pick(known.caches)}`, { ttl: 60 }),
    () => service.call('DELETE', `/caching/${pick(known.caches)}`),
    () => service.call('POST', '/caching/refs/tags', { tag, cache_id: pick(known.caches) }),
    () => service.call('DELETE', `/caching/refs/tags/${pick(known.tags)}`),
    async () => {
      const response = await service.call('POST', '/conversations', { items: [message()] });
      const { id } = (await response.clone().json()) as { id?: string };
      if (id !== undefined) known.conversations.add(id);
      return response;
    },
    () => service.call('POST', `${conversation}/items`, { items: [message(), message()] }),
    () => service.call('DELETE', conversation),
  ];
  return (kinds[random(kinds.length)] as () => Promise<Response>)();
}

t.test('a mix of requests at the same time', async (t) => {
  const service = await opened(t);
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  const conversations = new Set<string>();
  const seen: Record<number, number> = {};
  const met = () => seen[400] ?? 0;
  const goesOn = (round: number) => round < ROUNDS || (met() < MET_MIN && round < ROUNDS_MAX);
  for (let round = 0; goesOn(round); round += 1) {
    const files = await idsAt(service, '/files');
    const caches = await idsAt(service, '/caching');
    const tags = await idsAt(service, '/caching/refs/tags', 'tag');
    t.ok(files.length <= MAX.files && tags.length <= MAX.tags, `seed ${seed}, round ${round}`);
    t.ok(caches.length <= CACHES_MAX, `${caches.length} caches`);
    for (const [name, value] of Object.entries(await kept(service))) {
      const max = (MAX as Record<string, number>)[name] ?? Number.POSITIVE_INFINITY;
      t.ok(value <= max, `seed ${seed}, round ${round}: ${name} is ${value}`);
    }
    const known = { files, caches, tags, conversations };
    const asked = Array.from({ length: AT_ONCE }, () => request(service, known, random));
    for (const { status } of await Promise.all(asked)) seen[status] = (seen[status] ?? 0) + 1;
  }
  t.comment(JSON.stringify(seen));
  t.ok(Object.keys(seen).every((status) => [200, 400, 404, 429].includes(Number(status))));
  t.ok(met() >= MET_MIN, 'bounds were met');
  const before = await kept(service);
  const { files, file_bytes: bytes } = await settled(service);
  await service.close();
  const again = await opened(t, service.dataDir);
  const after = await kept(again);
  t.same(after, { ...before, files, file_bytes: bytes }, `seed ${seed}: what is counted is there`);
  await t.test('all of the room is there once all is deleted', (t) => emptied(t, again));
});

/** Once every document is read: its text counts, too. */
async function settled(service: TestService): Promise<Record<keyof typeof MAX, number>> {
  for (const id of await idsAt(service, '/files'))
    await (await service.call('GET', `/files/${id}/content`)).text();
  return await kept(service);
}

async function emptied(t: Test, service: TestService): Promise<void> {
  for (const path of ['/files', '/caching'])
    for (const id of await idsAt(service, path)) await service.call('DELETE', `${path}/${id}`);
  for (const tag of await idsAt(service, '/caching/refs/tags', 'tag'))
    await service.call('DELETE', `/caching/refs/tags/${tag}`);
  t.match(await kept(service), { files: 0, file_bytes: 0, tags: 0 });
  const messages = [{ role: 'user', content: 'Hi' }];
  const create = () => service.call('POST', '/caching', { model: 'svc-v1', messages });
  const all = await Promise.all(Array.from({ length: CACHES_MAX + 4 }, create));
  t.equal(all.filter(({ status }) => status === 200).length, CACHES_MAX);
}
