/**
 * Services whose records are in PostgreSQL: nothing acknowledged is lost with a node or its disk, one node serves, another takes
 * over, and a node that was paused for longer than its lease writes nothing and stands by.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { measureStore } from '../../bench/postgres.js';
import { freePort } from '../../bench/support/free-port.js';
import { testSeed } from '../../src/plugin/test/random-text.js';
import { crashRun } from '../support/crash-run.js';
import { postgresPassword, skipPostgres, TestPostgres } from '../support/postgres.js';
import { openService, serviceEnv, temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { SocketClient } from '../support/socket-client.js';
import { until } from '../support/until.js';

t.setTimeout(600_000);

const TAKE_OVER_MS_MAX = 60_000;
const run = promisify(execFile);
const cache = {
  model: 'svc-v1',
  messages: [{ role: 'system', content: 'You know the whole manual by heart.' }],
  ttl: 3600,
};

interface Caller {
  readonly url: string;
  readonly key: string;
}

async function call(at: Caller, method: string, path: string, body?: object): Promise<Response> {
  return await fetch(at.url + path, {
    method,
    headers: { authorization: `Bearer ${at.key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function idOfNewCache(at: Caller): Promise<string> {
  const response = await call(at, 'POST', '/caching', cache);
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return (JSON.parse(text) as { id: string }).id;
}

/** A node that stands by, and the promise of its turn. */
async function standBy(t: Test, store: string) {
  const port = await freePort();
  const env = { PREFACE_STORE: store, PREFACE_PORT: String(port) };
  const serving = startServiceProcess(t, {}, env);
  serving.catch(() => {});
  const base = `http://127.0.0.1:${port}`;
  const ready = () => fetch(`${base}/ready`).catch(() => null);
  const stands = await until(async () => {
    const response = await ready();
    return response?.status === 200 ? response : null;
  }, TAKE_OVER_MS_MAX);
  t.same(await stands?.json(), { status: 'ok', stands_by: true });
  t.equal((await fetch(`${base}/health`)).status, 200);
  t.match(await (await fetch(`${base}/metrics`)).text(), /^preface_event_loop_lag_seconds/m);
  return { serving, base };
}

async function anotherDisk(t: Test, server: TestPostgres): Promise<void> {
  const store = await server.database();
  const first = await openService(t, { PREFACE_STORE: store });
  const made = await first.call('POST', '/caching', { ...cache, tags: ['manual'] });
  const { id } = (await made.json()) as { id: string };
  const form = new FormData();
  form.append('file', new Blob(['words in a file']), 'note.txt');
  form.append('purpose', 'file-extract');
  const uploaded = await fetch(`${first.url}/files`, {
    method: 'POST',
    headers: { authorization: 'Bearer key-of-alice' },
    body: form,
  });
  t.equal(uploaded.status, 200);
  const question = { model: 'svc-v1-8k', messages: [{ role: 'user', content: 'hello' }] };
  t.equal((await first.call('POST', '/chat/completions', question)).status, 200);
  t.match(first.log.join('\n'), /records: in PostgreSQL at 127/);
  t.match(first.log.join('\n'), /files: their bytes stay in .+, on this node alone/);
  t.notMatch(first.log.join('\n'), new RegExp(postgresPassword));
  await first.close();
  const second = await openService(t, { PREFACE_STORE: store });
  t.not(second.dataDir, first.dataDir);
  const tag = await second.call('GET', '/caching/refs/tags/manual/content');
  t.equal(((await tag.json()) as { id: string }).id, id);
  t.equal((await second.call('GET', `/caching/${id}`)).status, 200);
  t.equal((await second.call('POST', '/chat/completions', question)).status, 200);
}

async function keys(t: Test, server: TestPostgres): Promise<void> {
  const store = await server.database();
  const service = await openService(t, { PREFACE_STORE: store });
  const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
  const env = { PATH: process.env.PATH, ...serviceEnv(temporaryFolder(t)), PREFACE_STORE: store };
  const keysCommand = async (...args: string[]) =>
    (await run(process.execPath, [cli, 'keys', ...args], { env })).stdout.trim();
  const key = await keysCommand('create', '--user', 'carol');
  const status = async () => (await call({ url: service.url, key }, 'GET', '/models')).status;
  await until(async () => (await status()) === 200);
  const [{ id }] = JSON.parse(await keysCommand('list', '--json')) as [{ id: string }];
  await keysCommand('revoke', id);
  const revokedMs = performance.now();
  await until(async () => (await status()) === 401);
  t.comment(`refused ${Math.round(performance.now() - revokedMs)} ms after the command had ended`);
  t.equal(await keysCommand('list'), '');
}

async function takeOver(t: Test, server: TestPostgres): Promise<void> {
  const store = await server.database();
  const first = await startServiceProcess(t, {}, { PREFACE_STORE: store });
  const id = await idOfNewCache(first);
  const { serving, base } = await standBy(t, store);
  const other = { url: `${base}/v1`, key: first.key };
  t.equal((await call(other, 'GET', `/caching/${id}`)).status, 200, 'it forwards meanwhile');
  process.kill(first.pid, 'SIGKILL');
  const killedMs = performance.now();
  await first.ended;
  const meanwhile = await call(other, 'GET', `/caching/${id}`);
  t.equal(meanwhile.status, 503);
  t.equal(meanwhile.headers.get('retry-after'), '2');
  const second = await serving;
  t.comment(`served again ${Math.round(performance.now() - killedMs)} ms after kill -9`);
  t.equal((await call(second, 'GET', `/caching/${id}`)).status, 200);
  t.ok(await idOfNewCache(second));
}

async function paused(t: Test, server: TestPostgres): Promise<void> {
  const store = await server.database();
  const first = await startServiceProcess(t, {}, { PREFACE_STORE: store });
  const id = await idOfNewCache(first);
  const { serving } = await standBy(t, store);
  const headers = { authorization: `Bearer ${first.key}` };
  const socket = () => new SocketClient(t, `${first.url}/responses`, headers).opened();
  const before = await socket();
  process.kill(first.pid, 'SIGSTOP');
  const second = await serving;
  const changed = await call(second, 'PUT', `/caching/${id}`, { metadata: { by: 'second' } });
  t.equal(changed.status, 200);
  const sent = call(first, 'PUT', `/caching/${id}`, { metadata: { by: 'first' } });
  process.kill(first.pid, 'SIGCONT');
  const late = await sent.then(({ status }) => status).catch(() => 'cut off');
  t.ok([200, 503, 'cut off'].includes(late), `${late}`);
  // It may learn of the other node before it reads the request: then it passes it on, and the other node has the change.
  const by = late === 200 ? 'first' : 'second';
  t.equal(await metadataBy(second, id), by, 'the node that was paused wrote nothing');
  await until(async () => (await isReady(first)) === 'stands by', TAKE_OVER_MS_MAX);
  await until(async () => /stand-by: another process took over the records/.test(first.log()));
  t.equal((await before.untilClosed()).code, 1001, 'its connections end');
  const create = { type: 'response.create', model: 'svc-v1-8k', input: 'hello' };
  const passed = await socket();
  passed.send(create);
  t.equal((await passed.turn()).at(-1)?.type, 'response.completed', 'a new one is passed on');
  t.equal(await metadataBy(first, id), by, 'it forwards, from the same process');
  process.kill(second.pid, 'SIGKILL');
  t.equal((await passed.untilClosed()).code, 1001, 'and ends with the node that served');
  await until(async () => (await isReady(first)) === 'serves', TAKE_OVER_MS_MAX);
  t.equal(await metadataBy(first, id), by, 'it has read the records again');
  t.ok(await idOfNewCache(first));
  const after = await socket();
  after.send(create);
  t.equal((await after.turn()).at(-1)?.type, 'response.completed');
  process.kill(first.pid, 'SIGTERM');
  t.equal(await first.ended, 0);
}

async function isReady({ url }: Caller): Promise<'stands by' | 'serves' | null> {
  const response = await fetch(new URL('/ready', url)).catch(() => null);
  if (response?.status !== 200) return null;
  return 'stands_by' in ((await response.json()) as object) ? 'stands by' : 'serves';
}

async function metadataBy(at: Caller, id: string): Promise<string> {
  const response = await call(at, 'GET', `/caching/${id}`);
  return ((await response.json()) as ShownMetadata).metadata.by;
}

interface ShownMetadata {
  readonly metadata: { readonly by: string };
}

async function restarted(t: Test, server: TestPostgres): Promise<void> {
  const store = await server.database();
  const service: ServiceProcess = await startServiceProcess(t, {}, { PREFACE_STORE: store });
  const id = await idOfNewCache(service);
  await server.stop();
  const meanwhile = await call(service, 'PUT', '/caching/none', {});
  await meanwhile.body?.cancel();
  await until(async () => (await call(service, 'GET', `/caching/${id}`)).status === 503);
  await server.start();
  await until(async () => (await call(service, 'GET', `/caching/${id}`)).status === 200);
  t.ok(await idOfNewCache(service));
}

async function kills(t: Test, server: TestPostgres): Promise<void> {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const log = (line: string) => t.comment(line);
  const env = { PREFACE_STORE: await server.database() };
  const result = await crashRun({ kills: 4, seed, engine: 'echo', log, env });
  t.ok(result.acknowledged > 8, `${result.acknowledged} requests were acknowledged`);
}

async function bench(t: Test, server: TestPostgres): Promise<void> {
  const figures = await measureStore(await server.database(), 0.02);
  for (const { what, errors, aSecond } of figures) {
    t.equal(errors, 0, what);
    t.ok(aSecond > 0, what);
  }
}

if (skipPostgres !== false) t.pass('skipped', { skip: skipPostgres });
else {
  const server = await TestPostgres.start(t);
  await t.test('records outlive a node and its disk', (t) => anotherDisk(t, server));
  await t.test('a key counts, and ends, on a running node', (t) => keys(t, server));
  await t.test('a node that stands by takes over after kill -9', (t) => takeOver(t, server));
  await t.test('a node that was paused writes nothing, stands by and serves again', (t) =>
    paused(t, server),
  );
  await t.test('the database stops and comes back', (t) => restarted(t, server));
  await t.test('four kills under load', (t) => kills(t, server));
  await t.test('the bench of both stores', (t) => bench(t, server));
}
