/**
 * Owns the proof that the package works for who installs it: what is in it, the command, a chat, and plugins of others.
 * It must never run or compile anything of this folder but the compiler: what it tests is the installed copy.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
/** The command's bundle with its maps, what runs in threads and children, plugins, and each page. */
const FILES_MAX = 600;
const PACKED_BYTES_MAX = 6e6;
const INSTALLED_BYTES_MAX = 350e6;
const INSTALL_MS_MAX = 5 * 60_000;
const COMMAND_MS_MAX = 60_000;

t.setTimeout(600_000);

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

interface Manifest {
  readonly exports: Readonly<Record<string, string | { types: string; default: string }>>;
  readonly bin: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;

/** Of the build that this test is part of: no script runs, so nothing is built anew below a running test. */
async function pack(folder: string): Promise<Packed> {
  const flags = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', flags, { cwd: root, maxBuffer: 2 ** 24 });
  const [packed] = Object.values(JSON.parse(stdout) as Record<string, Packed>);
  if (packed === undefined) throw new Error('npm packed nothing');
  return packed;
}

/** Outside of this project, whose packages would be found from any folder in it. */
function temporaryFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'preface-package-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const folder = temporaryFolder(t);
const packed = await pack(folder);
const paths = new Set(packed.files.map(({ path }) => path));

/** @returns why it could not be installed here, null where it is. */
async function install(into: string): Promise<string | null> {
  mkdirSync(into, { recursive: true });
  const own = { name: 'user', version: '1.0.0', private: true, type: 'module' };
  writeFileSync(join(into, 'package.json'), JSON.stringify(own));
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save'];
  const args = ['install', ...flags, join(folder, packed.filename)];
  try {
    await run('npm', args, { cwd: into, timeout: INSTALL_MS_MAX, maxBuffer: 2 ** 24 });
    return null;
  } catch (cause) {
    const { stderr = '' } = cause as { stderr?: string };
    const offline = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTCACHED)\b/.exec(
      stderr,
    );
    if (offline === null) throw cause;
    return `the registry cannot be reached: ${offline[0]}`;
  }
}

const user = join(folder, 'user');
const missing = await install(user);
const skip = missing ?? false;
const key = 'sk-package-0123456789';

t.test('the package holds what runs and no more', async (t) => {
  t.ok(paths.size <= FILES_MAX, `${paths.size} files`);
  t.ok(packed.size <= PACKED_BYTES_MAX, `${packed.size} bytes`);
  for (const path of ['LICENSE', 'README.md', 'src/pages/console/index.html']) {
    t.ok(paths.has(path), path);
  }
  for (const path of paths) {
    t.notMatch(path, /^(dist\/)?(test|bench)\/|tsbuildinfo|(?<!\.d)\.ts$/, path);
    if (path.endsWith('.map')) t.match(path, /^dist\/src\/(cli|run\/[^/]+)\.js\.map$/, path);
  }
  const entries = Object.values(manifest.exports).flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry),
  );
  for (const entry of [...entries, ...Object.values(manifest.bin)]) {
    t.ok(paths.has(posix.normalize(entry)), entry);
  }
});

t.test('each file of the package finds what it imports in it', async (t) => {
  // The command's bundle has neither spaces nor lines between its imports.
  for (const path of [...paths].filter((each) => /^dist\/.*\.(c?js|d\.ts)$/.test(each))) {
    const text = readFileSync(join(root, path), 'utf8');
    const imported = text.matchAll(
      /(?:^|;)(?:import|export)\b(?:[^'";()]*\bfrom)?\s*['"](\.[^'"]+)['"]|\bimport\(['"](\.[^'"]+)['"]\)|new URL\(['"](\.[^'"]+\.c?js)['"],\s*import/gm,
    );
    for (const [, first, second, third] of imported) {
      const to = posix.join(posix.dirname(path), first ?? second ?? third ?? '');
      const wanted = path.endsWith('.d.ts') ? to.replace(/\.js$/, '.d.ts') : to;
      t.ok(paths.has(wanted), `${path} imports ${wanted}`);
    }
  }
});

function npx(...args: readonly string[]) {
  const options = { cwd: user, timeout: COMMAND_MS_MAX, maxBuffer: 2 ** 24 };
  return run('npx', ['--no-install', ...args], options);
}

async function installedBytes(): Promise<number> {
  const { stdout } = await run('du', ['-sb', join(user, 'node_modules')]);
  return Number(stdout.split('\t')[0]);
}

/** By `npx`, as a user starts it; a process group of its own, since npx does not hand every signal on. */
async function serve(t: Test, env: Readonly<Record<string, string>>): Promise<string> {
  const own = { PREFACE_API_KEYS: `alice:${key}`, PREFACE_DATA_DIR: temporaryFolder(t) };
  const child: ChildProcess = spawn(
    'npx',
    ['--no-install', 'preface', 'serve', '--engine', 'echo', '--port', '0'],
    {
      cwd: user,
      detached: true,
      env: { ...process.env, ...own, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const closed = once(child, 'close');
  t.teardown(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM');
    await closed;
  });
  if (child.stdout === null) throw new Error('it has no output');
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^preface listening on (\S+)$/.exec(line)?.[1];
    if (url !== undefined) return new URL('/', url).href;
  }
  throw new Error('the service ended before it listened');
}

function ask(url: string, body: object): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return fetch(`${url}v1/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
}

const hello = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 5 };

t.test('the command says what it can do', { skip }, async (t) => {
  const { stdout } = await npx('preface', '--help');
  for (const name of ['serve', 'keys', 'doctor']) t.match(stdout, new RegExp(`^ +${name}`, 'm'));
});

t.test('a stack names the sources, of which the command is bundled', { skip }, async (t) => {
  const env = { ...process.env, PREFACE_DEBUG: '1' };
  const args = [
    '--no-install',
    'preface',
    'keys',
    'create',
    '--user',
    'a',
    '--data-dir',
    'package.json',
  ];
  const asked = run('npx', args, { cwd: user, timeout: COMMAND_MS_MAX, env });
  const { stderr } = await asked.catch((cause: unknown) => cause as { stderr: string });
  t.match(stderr, /^ +at .*\/src\/store\/lmdb-open\.ts:\d+:\d+\)$/m);
});

t.test('pruned, the installation is small and has nothing more to remove', { skip }, async (t) => {
  const before = await installedBytes();
  const { stdout } = await npx('preface', 'doctor', '--prune');
  t.match(stdout, /files of uWebSockets\.js/);
  const after = await installedBytes();
  t.comment(`${Math.round(before / 1e6)} MB installed, ${Math.round(after / 1e6)} MB pruned`);
  t.ok(after < before && after <= INSTALLED_BYTES_MAX, `${after} bytes`);
  t.match((await npx('preface', 'doctor', '--prune')).stdout, 'nothing to remove');
});

t.test('the service answers a chat', { skip }, async (t) => {
  const url = await serve(t, {});
  const models = await fetch(`${url}v1/models`, { headers: { authorization: `Bearer ${key}` } });
  const [model] = ((await models.json()) as { data: { id: string }[] }).data;
  const answer = await ask(url, { ...hello, model: model?.id });
  t.equal(answer.status, 200);
  t.match(await answer.json(), { choices: [{ message: { role: 'assistant', content: /\S/ } }] });
  const page = await fetch(`${url}docs`);
  t.equal(page.status, 200, 'its pages are there too');
});

t.test(
  'the examples compile against `preface/plugin`, pass its suites and serve',
  { skip },
  async (t) => {
    const copied = ['plugins/examples', 'test/support/suites-under-node.ts'];
    for (const path of copied) cpSync(join(root, path), join(user, path), { recursive: true });
    const config = {
      compilerOptions: {
        target: 'ES2023',
        lib: ['ES2023'],
        module: 'NodeNext',
        strict: true,
        rootDir: '.',
        outDir: 'out',
        types: ['node'],
        verbatimModuleSyntax: true,
        typeRoots: [join(root, 'node_modules/@types')],
      },
      include: ['plugins', 'test'],
    };
    writeFileSync(join(user, 'tsconfig.json'), JSON.stringify(config));
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    await run(process.execPath, [compiler, '-p', user]).catch((cause) => t.fail(cause.stdout));
    const env = { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR };
    const suites = join(user, 'out/test/support/suites-under-node.js');
    const { stdout } = await run(process.execPath, [suites], { env, timeout: COMMAND_MS_MAX });
    t.match(stdout, /fail 0/);
    const built = (name: string) => join(user, `out/plugins/examples/${name}.js`);
    const settings = join(user, 'settings.json');
    const model = { engine: built('engine-alphabet'), tokenizer: 'bytes', window: 512 };
    writeFileSync(settings, JSON.stringify({ models: { 'abc-1': model } }));
    const url = await serve(t, {
      PREFACE_CONFIG: settings,
      PREFACE_EXTRACTORS: `${built('extractor-subtitles')},text`,
      PREFACE_FILTERS: built('filter-cards'),
    });
    const answer = await ask(url, { ...hello, model: 'abc-1' });
    t.match(await answer.json(), { choices: [{ message: { content: 'abcde' } }] });
    const secret = [{ role: 'user', content: 'mine is 4111 1111 1111 1111' }];
    t.equal((await ask(url, { ...hello, model: 'abc-1', messages: secret })).status, 400);
  },
);
