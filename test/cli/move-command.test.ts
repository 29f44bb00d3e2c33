/**
 * Owns the proof that `users move` takes a user from one data folder to another by the command line alone.
 * It must never touch the folders of the user who runs it.
 */
import { spawn } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { openService, type TestService, temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

// A process for each step, on a machine that may be busy.
t.setTimeout(300_000);

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

async function preface(folder: string, dataDir: string, args: readonly string[]): Promise<Ended> {
  const { PATH = '' } = process.env;
  const env = { PATH, HOME: folder, PREFACE_DATA_DIR: dataDir };
  const child = spawn(process.execPath, [cli, ...args], { env });
  const ended = { out: '', err: '' };
  child.stdout.on('data', (part: Buffer) => {
    ended.out += part.toString();
  });
  child.stderr.on('data', (part: Buffer) => {
    ended.err += part.toString();
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, ...ended };
}

interface Nodes {
  readonly from: string;
  readonly to: string;
  readonly bundle: string;
  readonly key: string;
  /** A command on a data folder. */
  on(dataDir: string, ...args: string[]): Promise<Ended>;
  serve(dataDir: string): Promise<TestService>;
}

/** An old folder with carol and carol's cache, tag and file; no service runs on it. */
async function openNodes(t: Test): Promise<Nodes> {
  const folder = temporaryFolder(t);
  const [from, to] = [join(folder, 'from'), join(folder, 'to')];
  const on: Nodes['on'] = (dataDir, ...args) => preface(folder, dataDir, args);
  const made = await on(from, 'keys', 'create', '--user', 'carol');
  const key = made.out.trim();
  const serve = (dataDir: string) => openService(t, { PREFACE_DATA_DIR: dataDir });
  const service = await serve(from);
  await fill(service, key);
  await service.close();
  return { from, to, bundle: join(folder, 'bundle'), key, on, serve };
}

function read(service: TestService, key: string, path: string, body?: unknown): Promise<Response> {
  const method = body === undefined ? 'GET' : 'POST';
  return service.call(method, path, body, { authorization: `Bearer ${key}` });
}

async function fill(service: TestService, key: string): Promise<void> {
  const messages = [{ role: 'system', content: 'words of a cache' }];
  const cache = { model: 'svc-v1', messages, tags: ['kept'] };
  await (await read(service, key, '/caching', cache)).text();
  const form = new FormData();
  form.append('purpose', 'file-extract');
  form.append('file', new Blob(['words of a file']), 'a.txt');
  const headers = { authorization: `Bearer ${key}` };
  await (await fetch(`${service.url}/files`, { method: 'POST', headers, body: form })).text();
  await kept(service, key);
}

/** All that carol has, once no state changes any more. */
async function kept(service: TestService, key: string) {
  const list = async (path: string) =>
    ((await (await read(service, key, path)).json()) as { data: Record<string, string>[] }).data;
  let caches = await list('/caching');
  await until(async () => {
    caches = await list('/caching');
    return caches.every(({ status }) => status !== 'pending');
  });
  const files = await list('/files');
  const texts = files.map(async ({ id }) =>
    (await read(service, key, `/files/${id}/content`)).text(),
  );
  return { caches, files, tags: await list('/caching/refs/tags'), texts: await Promise.all(texts) };
}

t.test('out, in and gone: three commands move a user with all their data', async (t) => {
  const { from, to, bundle, key, on, serve } = await openNodes(t);
  const old = await serve(from);
  const before = await kept(old, key);
  t.match(before, { caches: [{ status: 'ready' }], tags: [{}], files: [{}] });
  t.match(before.texts, [/words of a file/]);

  const out = await on(from, 'users', 'move', 'carol', '--out', bundle);
  t.match(out, { code: 0, err: '' });
  t.match(out.out, /^carol: \d+ records and 2 blobs of files packed; suspended here\n$/);
  t.equal((await read(old, key, '/caching')).status, 403, 'beside the running service');

  const early = await on(from, 'users', 'move', 'carol', '--gone', bundle);
  t.match(early, { code: 1, out: '', err: /^preface: .*\n$/ }, 'not while it runs');
  await old.close();

  const into = await on(to, 'users', 'move', 'carol', '--in', bundle);
  t.match(into, { code: 0, err: '' });
  const wanted = 'unpacked; start the service, then send the user here';
  t.equal(into.out, out.out.replace('packed; suspended here', wanted));
  const fresh = await serve(to);
  t.same(await kept(fresh, key), before);
  await fresh.close();

  const gone = await on(from, 'users', 'move', 'carol', '--gone', bundle);
  t.match(gone, { code: 0, err: '' });
  t.match(gone.out, 'removed here; the account stays suspended');
  t.same(readdirSync(join(from, 'files')), []);
  t.equal((await on(from, 'caches', 'list', '--user', 'carol')).out, '');
  const after = await serve(from);
  t.equal((await read(after, key, '/caching')).status, 401, 'the old key is unknown here');
  await after.close();
});

t.test('what cannot be done is refused in one line, and changes nothing', async (t) => {
  const { from, to, bundle, key, on, serve } = await openNodes(t);
  const refused = async (dataDir: string, args: readonly string[], why: RegExp, code = 1) => {
    const found = await on(dataDir, 'users', 'move', ...args);
    t.equal(found.code, code, args.join(' '));
    t.equal(found.out, '');
    t.match(found.err, why);
    t.match(found.err, /^preface: [^\n]+\n$/);
  };
  await refused(from, ['carol'], /one of --out, --in and --gone is needed/, 2);
  const two = ['carol', '--out', bundle, '--in', bundle];
  await refused(from, two, /one of --out, --in and --gone/, 2);
  await refused(to, ['carol', '--in', bundle], /is not a complete bundle/);
  t.equal((await on(from, 'users', 'move')).code, 2, 'a user is needed');
  await refused(from, ['caroll', '--out', `${bundle}-of-nobody`], /there is no user "caroll"/);

  t.equal((await on(from, 'users', 'move', 'carol', '--out', bundle)).code, 0);
  for (const step of ['--in', '--gone']) {
    await refused(to, ['nobody', step, bundle], /is the bundle of carol, not of nobody/);
  }
  const [cut, longer] = [`${bundle}-cut`, `${bundle}-longer`];
  for (const damaged of [cut, longer]) cpSync(bundle, damaged, { recursive: true });
  rmSync(join(cut, 'manifest.json'));
  appendFileSync(join(longer, 'records.jsonl'), 'x');
  const [lost, changed] = [`${bundle}-lost`, `${bundle}-changed`];
  for (const damaged of [lost, changed]) cpSync(bundle, damaged, { recursive: true });
  const [blob = ''] = readdirSync(join(bundle, 'files'));
  rmSync(join(lost, 'files', blob));
  writeFileSync(join(changed, 'files', blob), 'X');
  const leading = `${bundle}-leading`;
  cpSync(bundle, leading, { recursive: true });
  const manifest = JSON.parse(readFileSync(join(bundle, 'manifest.json'), 'utf8'));
  const out = { ...manifest, files: { '../records.mdb': '' } };
  writeFileSync(join(leading, 'manifest.json'), JSON.stringify(out));
  for (const step of ['--in', '--gone']) {
    const dataDir = step === '--in' ? to : from;
    await refused(
      dataDir,
      ['carol', step, cut],
      /is not a complete bundle: it has no manifest\.json/,
    );
    for (const damaged of [longer, lost, changed]) {
      await refused(dataDir, ['carol', step, damaged], /is damaged: pack the user again/);
    }
    await refused(dataDir, ['carol', step, leading], /or damaged: pack the user again/);
  }
  t.notOk(existsSync(join(to, 'files')), 'nothing came in');
  t.equal(readdirSync(join(from, 'files')).length, 2, 'nothing went');

  // The bundle itself is whole: what was refused has not spoilt it.
  t.equal((await on(to, 'users', 'move', 'carol', '--in', bundle)).code, 0);
  const service = await serve(to);
  t.match((await kept(service, key)).texts, [/words of a file/]);
  await service.close();
});
