/**
 * Owns the proof that a GPU's library is brought by npm, asked for its devices in a process of its own, and planned for.
 * It must never need a GPU, a driver or a registry.
 */
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { devicePlan } from '../../plugins/engines/llama/devices.js';

t.setTimeout(300_000);
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
const platform = `${process.platform}-${process.arch}`;

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function run(folder: string, args: readonly string[]): Promise<Ended> {
  const env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, PREFACE_PORT: '0' };
  const options = { cwd: folder, env: { ...env, PREFACE_MODELS_DIR: join(folder, 'models') } };
  return new Promise((resolve) => {
    execFile(process.execPath, [cli, ...args], options, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out, err }),
    );
  });
}

/** Stands in for npm: it notes what it was asked, and brings the processor's library under the name of the GPU's. */
function fakeNpm(folder: string): void {
  const main = createRequire(import.meta.url).resolve(`@node-llama-cpp/${platform}`);
  const bins = join(dirname(main), '..', 'bins', platform);
  const script = `#!/bin/sh
echo "$@" > '${folder}/asked'
while [ $# -gt 1 ]; do [ "$1" = --prefix ] && prefix="$2"; shift; done
to="$prefix/node_modules/@node-llama-cpp/${platform}-vulkan/bins"
mkdir -p "$to" && ln -s '${bins}' "$to/${platform}-vulkan"
`;
  writeFileSync(join(folder, 'npm'), script);
  chmodSync(join(folder, 'npm'), 0o755);
}

t.test('the library is brought, asked for its devices, and removed', async (t: Test) => {
  const folder = t.testdir({});
  const before = await run(folder, ['gpu', 'list', 'vulkan']);
  t.match(before, { code: 1, err: /there is no library: `preface gpu add vulkan` brings it/ });
  const served = await run(folder, ['serve', '--gpu', 'vulkan', '--weights', 'm.gguf']);
  t.equal(served.code, 1);
  fakeNpm(folder);
  const added = await run(folder, ['gpu', 'add', 'vulkan']);
  t.equal(added.code, 0, added.err);
  t.match(added.out, /^DEVICE +DESCRIPTION +KIND +FREE +MEMORY\nCPU .* processor /);
  const version = /"@node-llama-cpp\/linux-x64": "([^"]+)"/.exec(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  )?.[1];
  t.match(
    readFileSync(join(folder, 'asked'), 'utf8'),
    `@node-llama-cpp/${platform}-vulkan@${version}`,
  );
  const examined = await run(folder, ['doctor', '--gpu', 'vulkan']);
  t.match(
    examined.out,
    /warn {2}gpu +vulkan finds no GPU\n +→ install its driver, or set PREFACE_GPU=off/,
  );
  t.equal((await run(folder, ['gpu', 'rm', 'vulkan'])).code, 0);
  t.notOk(existsSync(join(folder, 'models', 'gpu', 'vulkan')));
  t.match(await run(folder, ['gpu', 'add', 'metal']), {
    code: 2,
    err: /Allowed choices are vulkan, cuda/,
  });
});

t.test('npm that fails leaves nothing behind', async (t: Test) => {
  const folder = t.testdir({});
  writeFileSync(join(folder, 'npm'), '#!/bin/sh\nmkdir -p "$3/node_modules"; exit 1\n');
  chmodSync(join(folder, 'npm'), 0o755);
  t.match(await run(folder, ['gpu', 'add', 'cuda']), {
    code: 1,
    err: /npm did not bring @node-llama-cpp/,
  });
  t.notOk(existsSync(join(folder, 'models', 'gpu', 'cuda')));
});

t.test('what goes into the memory of a GPU', async (t) => {
  const device = (freeBytes: number, isProcessor = false) => {
    const memory = { freeBytes, totalBytes: freeBytes };
    return { name: 'd', text: 'd', isProcessor, ...memory };
  };
  t.equal(devicePlan([device(8e9, true)], 1e9, 30), null, 'the processor alone');
  const all = devicePlan([device(10e9), device(32e9, true)], 5e9, 30);
  t.same(all, { layers: -1, contextBytesMax: 4e9 }, 'all layers, and the rest for contexts');
  const some = devicePlan([device(5e9), device(5e9)], 14.4e9, 30);
  t.equal(some?.layers, 15, 'half of the layers');
  t.ok(Math.abs((some?.contextBytesMax ?? 0) - 1.8e9) < 1);
});
