/**
 * Owns the proof that pruning keeps what this machine loads and touches nothing else.
 * It must never run over the packages that the tests themselves use.
 */
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { dependencyFolders, type Platform, prune } from '../../src/cli/prune.js';

const machine: Platform = { platform: 'linux', arch: 'x64', abi: '137' };

const kept = [
  'uWebSockets.js/uws.js',
  'uWebSockets.js/uws_linux_x64_137.node',
  'uWebSockets.js/docs/uws_linux_x64_115.node',
  'tesseract.js-core/tesseract-core-lstm.wasm',
  'tesseract.js-core/tesseract-core-lstm.js',
  '@node-llama-cpp/linux-x64/bins/linux-x64/libllama.so',
  '@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda/libggml-cuda.so',
  '@node-llama-cpp/linux-arm64/package.json',
  'other/uws_linux_x64_115.node',
];
const spare = [
  'uWebSockets.js/uws_linux_x64_115.node',
  'uWebSockets.js/uws_linux_arm64_137.node',
  'uWebSockets.js/uws_darwin_arm64_137.node',
  'uWebSockets.js/uws_win32_x64_137.node',
  'tesseract.js-core/tesseract-core-relaxedsimd-lstm.wasm.js',
  '@node-llama-cpp/linux-arm64/bins/linux-arm64/libllama.so',
  '@node-llama-cpp/mac-arm64-metal/bins/mac-arm64-metal/libllama.dylib',
];

function tree(t: Test, ...files: readonly string[]): string {
  const folder = join(t.testdir({}), 'node_modules');
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), 'binary');
  }
  return folder;
}

t.test('what is for other machines goes, all else stays', async (t) => {
  const folder = tree(t, ...kept, ...spare);
  const freed = await prune([folder], machine);
  for (const file of kept) t.ok(existsSync(join(folder, file)), `${file} stays`);
  for (const file of spare) t.notOk(existsSync(join(folder, file)), `${file} goes`);
  t.same(freed.map(({ package: name, files, bytes }) => [name, files, bytes]).sort(), [
    ['@node-llama-cpp/linux-arm64', 1, 6],
    ['@node-llama-cpp/mac-arm64-metal', 1, 6],
    ['tesseract.js-core', 1, 6],
    ['uWebSockets.js', 4, 24],
  ]);
  t.same(await prune([folder], machine), [], 'a second time finds nothing');
});

t.test('only the nearest copy of a package is touched, as only that one is loaded', async (t) => {
  const [file = ''] = spare;
  const near = tree(t, file);
  const far = join(t.testdirName, 'far/node_modules');
  mkdirSync(dirname(join(far, file)), { recursive: true });
  writeFileSync(join(far, file), 'binary');
  await prune([near, far], machine);
  t.notOk(existsSync(join(near, file)));
  t.ok(existsSync(join(far, file)));
});

t.test('a folder that is no node_modules is refused before anything goes', async (t) => {
  const folder = tree(t, ...spare);
  await t.rejects(prune([folder, t.testdirName], machine), /is no node_modules/);
  for (const file of spare) t.ok(existsSync(join(folder, file)), file);
});

t.test('a package that is a link to a checkout is refused', async (t) => {
  const folder = tree(t, ...kept.filter((file) => !file.startsWith('uWebSockets.js/')));
  const checkout = join(t.testdirName, 'checkout');
  mkdirSync(checkout);
  writeFileSync(join(checkout, 'uws_linux_x64_115.node'), 'binary');
  symlinkSync(checkout, join(folder, 'uWebSockets.js'));
  await t.rejects(prune([folder], machine), /outside of node_modules/);
  t.same(readdirSync(checkout), ['uws_linux_x64_115.node']);
});

t.test('the folders are those from which this package loads', async (t) => {
  const folders = dependencyFolders();
  t.ok(folders.some((folder) => existsSync(join(folder, 'uWebSockets.js'))));
  for (const folder of folders) t.match(folder, /node_modules$/);
});
