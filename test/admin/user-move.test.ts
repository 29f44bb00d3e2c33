/**
 * A user moves from one node to another with all their data, in steps that may be interrupted; at most one node serves them.
 */
import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { withSharedFile } from '../../src/admin/open-accounts.js';
import { pack, remove, unpack } from '../../src/admin/user-move.js';
import { serve } from '../../src/main.js';
import { loadConfig } from '../../src/settings/config.js';
import { said } from '../support/chat-client.js';
import { temporaryFolder } from '../support/service.js';

t.setTimeout(180_000);

class Node {
  readonly config;
  #service: Awaited<ReturnType<typeof serve>> | null = null;

  constructor(folder: string, name: string) {
    const env = {
      HOME: process.env.HOME ?? '/',
      PREFACE_ENGINE: 'echo',
      PREFACE_PORT: '0',
      PREFACE_DATA_DIR: join(folder, name),
      PREFACE_API_KEYS: 'other:other-key',
    };
    this.config = loadConfig({ flags: {}, env });
  }

  async start(): Promise<void> {
    this.#service = await serve(this.config, () => {});
  }

  async stop(): Promise<void> {
    await this.#service?.close();
    this.#service = null;
  }

  call(key: string, method: string, path: string, body?: unknown): Promise<Response> {
    const json = body === undefined || body instanceof FormData ? body : JSON.stringify(body);
    return fetch(`${this.#service?.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}` },
      ...(json === undefined ? {} : { body: json }),
    });
  }

  async read(key: string, path: string): Promise<Record<string, unknown>> {
    return (await (await this.call(key, 'GET', path)).json()) as Record<string, unknown>;
  }
}

interface Kept {
  readonly caches: { readonly id: string; status: string }[];
  readonly tags: unknown;
  readonly files: { readonly id: string }[];
  readonly text: string;
}

async function keptBy(node: Node, key: string): Promise<Kept> {
  const { data: caches } = await node.read(key, '/caching');
  const { data: tags } = await node.read(key, '/caching/refs/tags');
  const files = (await node.read(key, '/files')).data as { id: string }[];
  const [file] = files;
  const content = file ? await node.call(key, 'GET', `/files/${file.id}/content`) : null;
  return { caches: caches as Kept['caches'], tags, files, text: (await content?.text()) ?? '' };
}

async function fill(node: Node, key: string): Promise<void> {
  const cache = (content: string, more: object = {}) =>
    node.call(key, 'POST', '/caching', {
      model: 'svc-v1',
      messages: [{ role: 'system', content }],
      ...more,
    });
  await (await cache('the first', { tags: ['first'], metadata: { kind: 'a' } })).text();
  await (await cache('the second')).text();
  await (await cache('the failed', { expired_at: 1 })).text();
  const form = new FormData();
  form.append('purpose', 'file-extract');
  form.append('file', new Blob(['words of a file']), 'a.txt');
  await (await node.call(key, 'POST', '/files', form)).text();
  await keptBy(node, key);
}

/** Statuses that come by themselves. */
async function settled(node: Node, key: string): Promise<Kept> {
  for (let tries = 0; tries < 500; tries += 1) {
    const kept = await keptBy(node, key);
    if (kept.caches.every(({ status }) => status !== 'pending')) return kept;
  }
  throw new Error('caches stay pending');
}

async function newNodes(t: Test) {
  const folder = temporaryFolder(t);
  const [from, to] = [new Node(folder, 'from'), new Node(folder, 'to')];
  t.teardown(() => Promise.all([from.stop(), to.stop()]));
  await from.start();
  const { key } = await withSharedFile(from.config, ({ keys }) => keys.create('alice'));
  await withSharedFile(from.config, ({ grants }) =>
    grants.change('alice', (stored) => ({ ...stored, rpm: 500 })),
  );
  return { from, to, key, bundle: join(folder, 'bundle') };
}

t.test('caches, tags, files, keys, grants and use go along; others stay', async (t) => {
  const { from, to, key, bundle } = await newNodes(t);
  await fill(from, key);
  await fill(from, 'other-key');
  const before = await settled(from, key);
  const others = await settled(from, 'other-key');
  await (await from.call(key, 'POST', '/chat/completions', said('used'))).text();

  const packed = await pack(from.config, 'alice', bundle);
  t.match(await (await from.call(key, 'GET', '/caching')).json(), {
    error: { type: 'exceeded_current_quota_error' },
  });
  t.same(await pack(from.config, 'alice', bundle), packed, 'a second run finds it whole');

  await to.start();
  await t.rejects(unpack(to.config, 'alice', bundle), /use|run|lock/i, 'not while it runs');
  await to.stop();
  await unpack(to.config, 'alice', bundle);
  await unpack(to.config, 'alice', bundle);
  await to.start();
  const after = await settled(to, key);
  t.same(after, before, 'with the same ids, states, tags and text');
  const chat = await to.call(key, 'POST', '/chat/completions', {
    model: 'svc-v1-8k',
    messages: [
      { role: 'cache', content: 'tag=first' },
      { role: 'user', content: 'Hi' },
    ],
  });
  t.equal(chat.headers.get('svc-context-cache-status'), 'hit', 'its prefix was prefilled anew');
  await chat.text();
  const policy = await withSharedFile(to.config, ({ grants }) => grants.of('alice'));
  t.match(policy, { state: 'active', rpm: 500 });
  const found = await to.read(key, '/caching?metadata[kind]=a');
  t.equal((found.data as unknown[]).length, 1, 'indexes are made anew');

  await from.stop();
  await remove(from.config, 'alice', bundle);
  await remove(from.config, 'alice', bundle);
  await from.start();
  t.equal((await from.call(key, 'GET', '/caching')).status, 401, 'the key is unknown here');
  t.same(await settled(from, 'other-key'), others, 'others keep what they have');
  const { length } = readdirSync(join(from.config.dataDir, 'files'));
  t.equal(length, 2, 'source and text of the other user alone');
  await to.stop();
  await from.stop();
});

t.test('a step that was interrupted is run again', async (t) => {
  const { from, to, key, bundle } = await newNodes(t);
  await fill(from, key);
  const before = await settled(from, key);
  await pack(from.config, 'alice', bundle);
  // As if it had been ended before its last step, after the user was suspended.
  rmSync(join(bundle, 'manifest.json'));
  await t.rejects(unpack(to.config, 'alice', bundle), /not a complete bundle/);
  writeFileSync(join(bundle, 'records.jsonl'), 'half');
  await pack(from.config, 'alice', bundle);
  const lines = readFileSync(join(bundle, 'records.jsonl'));
  appendFileSync(join(bundle, 'records.jsonl'), 'x');
  await t.rejects(unpack(to.config, 'alice', bundle), /is damaged/);
  writeFileSync(join(bundle, 'records.jsonl'), lines);
  await t.rejects(unpack(to.config, 'bob', bundle), /the bundle of alice/);
  await unpack(to.config, 'alice', bundle);
  await to.start();
  t.same(await settled(to, key), before, 'active again as before the first run');
  await to.stop();
  await from.stop();
});

t.test('what came after the bundle is never removed', async (t) => {
  const { from, key, bundle } = await newNodes(t);
  await fill(from, key);
  await settled(from, key);
  await pack(from.config, 'alice', bundle);
  await withSharedFile(from.config, ({ grants }) =>
    grants.change('alice', (stored) => ({ ...stored, state: 'active' })),
  );
  await fill(from, key);
  await from.stop();
  await t.rejects(
    remove(from.config, 'alice', bundle),
    /which .* does not have: nothing was removed/,
  );
  await from.start();
  t.equal((await settled(from, key)).caches.length, 6);
  await from.stop();
});
