/**
 * Owns the proof that a cache passes through its states as the contract says, in real time and over a restart.
 * It must wait for states, never for a time that should be enough.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { serve } from '../../src/main.js';
import { loadConfig } from '../../src/settings/config.js';
import { aliceKey, serviceEnv, temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

interface Cache {
  readonly id: string;
  readonly status: string;
  readonly expired_at: number;
  readonly error?: unknown;
}

class Server {
  #service: Awaited<ReturnType<typeof serve>> | null = null;
  readonly #dataDir: string;

  constructor(t: Test) {
    this.#dataDir = temporaryFolder(t);
    t.teardown(() => this.#service?.close());
  }

  async restart(): Promise<void> {
    await this.#service?.close();
    this.#service = null;
    this.#service = await serve(
      loadConfig({ flags: {}, env: serviceEnv(this.#dataDir) }),
      () => {},
    );
  }

  async call(method: string, path: string, body?: unknown): Promise<Cache> {
    const response = await fetch(`${this.#service?.url}/caching${path}`, {
      method,
      headers: { authorization: `Bearer ${aliceKey}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Cache;
  }

  /** When each kept prefix was written, by its name. */
  prefixesWritten(): Readonly<Record<string, number>> {
    const folder = join(this.#dataDir, 'engine', 'echo-snapshots');
    return Object.fromEntries(
      readdirSync(folder).map((name) => [name, statSync(join(folder, name)).mtimeMs]),
    );
  }

  async until(id: string, status: string): Promise<Cache> {
    const look = async (): Promise<Cache | null> => {
      const cache = await this.call('GET', `/${id}`);
      return cache.status === status ? cache : null;
    };
    return (await until(look, undefined, `${id} becomes ${status}`)) as Cache;
  }
}

const plain = { model: 'svc-v1', messages: [{ role: 'system', content: 'You are short.' }] };

t.test('pending, ready, inactive, and by PUT through pending to ready again', async (t) => {
  const server = new Server(t);
  await server.restart();
  const created = await server.call('POST', '', { ...plain, ttl: 600 });
  t.equal(created.status, 'pending');
  await server.until(created.id, 'ready');
  // Its life is short only now, so that nobody has to be quick to see it ready.
  const short = await server.call('PUT', `/${created.id}`, { ttl: 2 });
  const inactive = await server.until(created.id, 'inactive');
  t.ok(Date.now() / 1000 >= inactive.expired_at, 'not before its time');
  t.equal(inactive.expired_at, short.expired_at);
  const tag = { tag: 'late', cache_id: created.id };
  t.match(await server.call('POST', '/refs/tags', tag), tag, 'it can be tagged still');
  const described = await server.call('PUT', `/${created.id}`, { metadata: { a: 'b' } });
  t.equal(described.status, 'pending', 'also where its time stays in the past');
  t.equal(described.expired_at, short.expired_at);
  t.match(await server.until(created.id, 'inactive'), { metadata: { a: 'b' } });
  const put = await server.call('PUT', `/${created.id}`, { ttl: 600 });
  t.equal(put.status, 'pending');
  t.notOk('error' in (await server.until(created.id, 'ready')));
});

t.test('a PUT while the prefix is kept goes through pending and prefills nothing', async (t) => {
  const server = new Server(t);
  await server.restart();
  const { id } = await server.call('POST', '', { ...plain, ttl: 600 });
  await server.until(id, 'ready');
  const written = server.prefixesWritten();
  t.equal(Object.keys(written).length, 1);
  t.equal((await server.call('PUT', `/${id}`, { ttl: 900 })).status, 'pending');
  await server.until(id, 'ready');
  t.same(server.prefixesWritten(), written);
});

t.test('an error stays until PUT, and a live cache can be put into error', async (t) => {
  const server = new Server(t);
  await server.restart();
  const { id } = await server.call('POST', '', { ...plain, expired_at: 1 });
  t.match((await server.until(id, 'error')).error, { type: String, message: String });
  t.equal((await server.call('PUT', `/${id}`, {})).status, 'pending');
  await server.until(id, 'ready');
  t.equal((await server.call('PUT', `/${id}`, { expired_at: 1 })).status, 'pending');
  await server.until(id, 'error');
});

t.test('states, tags and messages survive a restart', async (t) => {
  const server = new Server(t);
  await server.restart();
  const ready = await server.call('POST', '', { ...plain, tags: ['kept'] });
  const failed = await server.call('POST', '', { ...plain, expired_at: 1 });
  const short = await server.call('POST', '', { ...plain, ttl: 1 });
  const last = await server.call('POST', '', { ...plain, name: 'pending when it stopped' });
  await server.restart();
  await server.until(ready.id, 'ready');
  await server.until(failed.id, 'error');
  await server.until(short.id, 'inactive');
  t.match(await server.until(last.id, 'ready'), plain);
  t.equal((await server.call('GET', '/refs/tags/kept/content')).id, ready.id);
});
