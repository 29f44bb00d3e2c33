/**
 * Owns the proof that the core loads where no native addon and no WebAssembly can.
 * It must count attempts, not failures: a package that does without what it could not load has tried all the same.
 */
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

const root = fileURLToPath(new URL('..', import.meta.url));
const loader = fileURLToPath(new URL('./support/load-without-addons.js', import.meta.url));

const folders = [
  'src/plugin',
  'src/rules',
  'src/protocol',
  'src/actors',
  'src/caches',
  'src/files',
  'src/accounts',
  'src/chat',
  'src/limits',
];
const files = [
  'src/store/store.js',
  'src/store/memory-store.js',
  'src/store/keys.js',
  'src/codec.js',
];

/** What the modules tried to load, each by its path. */
async function attemptsOf(modules: readonly string[]): Promise<string[]> {
  const urls = modules.map((module) => pathToFileURL(join(root, module)).href);
  const { stdout } = await promisify(execFile)(process.execPath, [loader, ...urls]);
  return JSON.parse(stdout) as string[];
}

t.test('the core loads without a native addon and without WebAssembly', async (t) => {
  const core = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.js'))
      .map((file) => join(folder, file)),
  );
  t.ok(core.length > 50, `${core.length} modules`);
  t.same(await attemptsOf([...core, ...files]), []);
});

t.test('an attempt would be seen', async (t) => {
  const lmdb = await attemptsOf(['src/store/lmdb-store.js']).catch((cause: Error) => [
    cause.message,
  ]);
  t.match(lmdb[0], /\.node/);
});
