/**
 * Sixty-four clients of two owners at the same few caches and tags at once: each answer is one of those that the
 * contract has, nothing is deleted twice, nobody sees another's, and in the end store and engine agree. Prints its seed.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { randomText, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { asBob, type Headers, type ShownCache, said } from '../support/cache-client.js';
import { model } from '../support/chat-client.js';
import { openService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(180_000);

const CLIENTS = 64;
const STEPS = 20;
const TAGS = ['a', 'b', 'c', 'd'];
const READY_MS_MAX = 60_000;

interface Owner {
  readonly headers: Headers;
  readonly ids: Set<string>;
  /** How often a deletion was acknowledged. */
  readonly deleted: Map<string, number>;
}

const service = await openService(t);
const seed = testSeed();
const random = seededRandom(seed);
const newOwner = (headers: Headers): Owner => ({ headers, ids: new Set(), deleted: new Map() });
const owners = [newOwner({}), newOwner(asBob)] as const;
const wrong: string[] = [];

async function call(owner: Owner, method: string, path: string, body?: unknown, headers?: Headers) {
  const response = await service.call(method, path, body, { ...owner.headers, ...headers });
  return { status: response.status, body: (await response.json()) as Partial<ShownCache> };
}

const pick = <Item>(items: readonly Item[]): Item | undefined => items[random(items.length)];
const anyId = (owner: Owner): string =>
  pick([...owner.ids].slice(-8)) ?? 'cache-00000000000000000000';

/** What a client may do, and what it may be told. */
const steps: Readonly<Record<string, (owner: Owner, other: Owner) => Promise<readonly number[]>>> =
  {
    async create(owner) {
      const tags = random(2) === 0 ? [pick(TAGS)] : [];
      const messages = [said(`prefix ${random(5)}`)];
      const body = { model: 'svc-v1', messages, tags, ttl: random(4) === 0 ? 1 : 600 };
      const made = await call(owner, 'POST', '/caching', body);
      if (made.body.id) owner.ids.add(made.body.id);
      return [made.status, 200];
    },
    async put(owner) {
      const body = { ttl: random(3) === 0 ? 1 : 600, metadata: { k: randomText(random, 3) } };
      return [(await call(owner, 'PUT', `/caching/${anyId(owner)}`, body)).status, 200, 404];
    },
    async remove(owner) {
      const id = anyId(owner);
      const { status } = await call(owner, 'DELETE', `/caching/${id}`);
      if (status === 200) owner.deleted.set(id, (owner.deleted.get(id) ?? 0) + 1);
      return [status, 200, 404];
    },
    async bind(owner) {
      const body = { tag: pick(TAGS), cache_id: anyId(owner) };
      return [(await call(owner, 'POST', '/caching/refs/tags', body)).status, 200, 404];
    },
    async unbind(owner) {
      return [(await call(owner, 'DELETE', `/caching/refs/tags/${pick(TAGS)}`)).status, 200];
    },
    async byHeader(owner) {
      const headers = {
        'x-svc-context-cache': anyId(owner),
        'x-svc-context-cache-reset-ttl': '600',
      };
      const messages = [said(`prefix ${random(5)}`), said('Hi')];
      const body = { model, messages, max_tokens: 2 };
      return [(await call(owner, 'POST', '/chat/completions', body, headers)).status, 200];
    },
    async byTag(owner) {
      const messages = [{ role: 'cache', content: `tag=${pick(TAGS)};reset_ttl=9` }, said('Hi')];
      const body = { model, messages, max_tokens: 2 };
      return [(await call(owner, 'POST', '/chat/completions', body)).status, 200, 404];
    },
    async list(owner) {
      const query = random(2) === 0 ? `limit=100&after=${anyId(owner)}` : 'limit=100';
      const { status, body } = await call(owner, 'GET', `/caching?${query}`);
      const { data = [] } = body as { data?: readonly ShownCache[] };
      for (const { id } of data) if (!id.startsWith('cache-')) wrong.push(`listed ${id}`);
      return [status, 200, 400];
    },
    async cross(owner, other) {
      const id = anyId(other);
      const [method, body] = pick([['GET'], ['PUT', { ttl: 1 }], ['DELETE']] as const) ?? ['GET'];
      return [(await call(owner, method, `/caching/${id}`, body)).status, 403, 404];
    },
  };

async function client(owner: Owner, other: Owner): Promise<void> {
  for (let at = 0; at < STEPS; at++) {
    const [name, step] = pick(Object.entries(steps)) ?? [];
    const [status = 0, ...allowed] = (await step?.(owner, other)) ?? [];
    if (!allowed.includes(status)) wrong.push(`${name}: ${status}`);
  }
}

async function listed(owner: Owner): Promise<readonly ShownCache[]> {
  const all: ShownCache[] = [];
  for (let after = ''; ; after = `&after=${all.at(-1)?.id}`) {
    const { body } = await call(owner, 'GET', `/caching?limit=100${after}`);
    const { data } = body as unknown as { data: readonly ShownCache[] };
    all.push(...data);
    if (data.length === 0) return all;
  }
}

async function done(what: string, test: () => Promise<boolean>): Promise<void> {
  await until(test, READY_MS_MAX, `${what}, seed ${seed}`);
}

t.test(`${CLIENTS} clients at once`, async (t) => {
  t.comment(`TEST_SEED=${seed}`);
  const [alice, bob] = owners;
  const clients = Array.from({ length: CLIENTS }, (_, at) =>
    at % 4 === 0 ? client(bob, alice) : client(alice, bob),
  );
  await Promise.all(clients);
  t.strictSame(wrong, [], 'each answer is one of the contract');
  for (const owner of owners) {
    t.notOk(
      [...owner.deleted.values()].some((times) => times > 1),
      'nothing is deleted twice',
    );
    const left = [...owner.ids].filter((id) => !owner.deleted.has(id));
    t.strictSame(new Set((await listed(owner)).map(({ id }) => id)), new Set(left));
    await done('settled', async () =>
      (await listed(owner)).every(({ status }) => status === 'ready' || status === 'inactive'),
    );
    const { body } = await call(owner, 'GET', '/caching/refs/tags');
    for (const { tag, cache_id } of (
      body as unknown as { data: { tag: string; cache_id: string }[] }
    ).data) {
      t.ok(owner.ids.has(cache_id), `${tag} points to a cache of its owner`);
      const content = await call(owner, 'GET', `/caching/refs/tags/${tag}/content`);
      t.equal(content.status, owner.deleted.has(cache_id) ? 404 : 200);
    }
    for (const id of left) {
      t.equal((await call(owner, 'DELETE', `/caching/${id}`)).status, 200, id);
    }
    t.strictSame(await listed(owner), []);
  }
  const snapshots = join(service.dataDir, 'engine', 'echo-snapshots');
  await done('all bytes are free', async () => readdirSync(snapshots).length === 0);
});
