/**
 * Owns the proof that a disk which is full for a moment costs one request at most, whichever write of the service meets it.
 * It must never depend on a real disk: each write is refused once, in turn, and the seed says at which of its occurrences.
 */
import t, { type Test } from 'tap';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { form, purpose, send } from '../support/file-client.js';
import { FullDisk } from '../support/full-disk-faults.js';
import { openService, type TestService, temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(600_000);

const adminKey = 'the-key-of-the-operator';
const seed = testSeed();
t.comment(`TEST_SEED=${seed}`);

interface Told {
  readonly id: string;
  readonly key?: string;
}

/** What takes something away must work at once; what adds something may be told to come again, once. */
class Caller {
  constructor(
    readonly t: Test,
    readonly service: TestService,
  ) {}

  async takes(method: string, path: string): Promise<void> {
    const response = await this.#ask(method, path);
    this.t.equal(response.status, 200, `${method} ${path}: ${await response.text()}`);
  }

  async adds(method: string, path: string, body?: unknown): Promise<Told> {
    return await this.#twice(`${method} ${path}`, () => this.#ask(method, path, body));
  }

  async uploads(text: string): Promise<Told> {
    const body = () => form([purpose, ['file', text, 'a.txt']]);
    return await this.#twice('upload', () => send(this.service, body()));
  }

  async status(path: string): Promise<number> {
    const response = await this.#ask('GET', path);
    await response.arrayBuffer();
    return response.status;
  }

  async #twice(what: string, act: () => Promise<Response>): Promise<Told> {
    const first = await act();
    if (first.status === 200) return (await first.json()) as Told;
    const said = await first.text();
    this.t.equal(first.status, 503, `${what}: ${said}`);
    this.t.match(said, /"server_error"/);
    this.t.ok(Number(first.headers.get('retry-after')) > 0, `${what} says when to come back`);
    const second = await act();
    this.t.equal(second.status, 200, `${what}, again`);
    return (await second.json()) as Told;
  }

  #ask(method: string, path: string, body?: unknown): Promise<Response> {
    if (!path.startsWith('/admin')) return this.service.call(method, path, body);
    const url = this.service.url.slice(0, -3) + path;
    return fetch(url, { method, headers: { authorization: `Bearer ${adminKey}` } });
  }
}

const CAROL = '/admin/v1/users/carol';
const messages = [{ role: 'system', content: 'The harbour opens at nine.' }];

/** Every kind of write that a client or an operator can cause. */
async function scenario(caller: Caller) {
  const { t } = caller;
  const { id: keyId } = await caller.adds('POST', `${CAROL}/keys`);
  const create = { model: 'svc-v1', messages, tags: ['a'] };
  const kept = await caller.adds('POST', '/caching', create);
  const gone = await caller.adds('POST', '/caching', { ...create, tags: ['b'], name: 'other' });
  const [file, other] = [await caller.uploads('words'), await caller.uploads('other words')];
  for (const { id } of [file, other]) {
    const isRead = async () => (await caller.status(`/files/${id}/content`)) === 200;
    t.ok(await until(isRead, 20_000), 'it is read');
  }
  await caller.adds('PUT', `/caching/${kept.id}`, { metadata: { changed: 'yes' } });
  for (const act of ['suspend', 'resume']) await caller.takes('POST', `${CAROL}/${act}`);
  await caller.takes('DELETE', '/caching/refs/tags/b');
  await caller.takes('DELETE', `/caching/${gone.id}`);
  await caller.takes('DELETE', `/files/${other.id}`);
  await caller.takes('DELETE', `${CAROL}/keys/${keyId}`);
  return { kept: kept.id, gone: gone.id, file: file.id, other: other.id };
}

async function opened(t: Test, disk: FullDisk, dataDir: string): Promise<TestService> {
  const env = { PREFACE_ADMIN_KEY: adminKey, PREFACE_DATA_DIR: dataDir };
  try {
    const service = await openService(t, env);
    // At the first start there is no reserve yet to give up.
    if (!service.log.some((line) => /started read-only; make room/.test(line))) return service;
    t.ok(disk.refused);
    await service.close();
    return await openService(t, env);
  } catch (cause) {
    t.ok(disk.refused, `${cause}`);
    t.match((cause as Error).message, /data folder|ENOSPC|No space/, 'the start says why');
    return await openService(t, env);
  }
}

async function run(t: Test, disk: FullDisk, site: string | null, nth = 0): Promise<string[]> {
  const dataDir = temporaryFolder(t);
  disk.begin(site, nth);
  const service = await opened(t, disk, dataDir);
  const ids = await scenario(new Caller(t, service));
  await service.close();
  const sites = [...disk.sites];
  disk.end();
  const again = new Caller(t, await openService(t, { PREFACE_DATA_DIR: dataDir }));
  t.equal(await again.status(`/caching/${ids.kept}`), 200, 'what was acknowledged is there');
  t.equal(await again.status('/caching/refs/tags/a'), 200);
  t.equal(await again.status(`/files/${ids.file}/content`), 200);
  for (const path of [`/caching/${ids.gone}`, '/caching/refs/tags/b', `/files/${ids.other}`]) {
    t.equal(await again.status(path), 404, `${path} stays away`);
  }
  await again.service.close();
  return sites;
}

t.test('each write of the service meets a full disk once', async (t) => {
  const disk = await FullDisk.open(t);
  const random = seededRandom(seed);
  const counts = new Map<string, number>();
  for (const site of await run(t, disk, null)) counts.set(site, (counts.get(site) ?? 0) + 1);
  const sites = [...counts.keys()];
  for (const name of ['batch', 'ifVersion', 'ifNoExists', 'transactionSync', 'writev', 'rename']) {
    t.ok(
      sites.some((site) => site.startsWith(name)),
      `${name} is among ${sites.join('; ')}`,
    );
  }
  for (const [site, count] of counts) {
    const nth = random(count);
    await t.test(`${site}, ${nth + 1} of ${count}`, async (t) => {
      await run(t, disk, site, nth);
      // A save by a timer may not come in a shorter run.
      if (!disk.refused) t.comment('it did not come again');
    });
  }
});
