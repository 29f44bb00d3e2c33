/**
 * What is installed is what was looked at: every package has its version and checksum in the lock file, none needs a script
 * to be installed, and each licence allows the use.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { addonChecksums } from '../../src/cli/addon-checksums.js';
import { addonFault } from '../../src/cli/doctor.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read = <Shape>(name: string) => JSON.parse(readFileSync(`${root}${name}`, 'utf8')) as Shape;

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly license?: string;
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly link?: boolean;
  readonly inBundle?: boolean;
}

const lock = read<{ packages: Record<string, Locked> }>('package-lock.json');
const manifest = read<{
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  scripts: Record<string, string>;
}>('package.json');
const packages = Object.entries(lock.packages).filter(([path]) => path !== '');

/** The registry that the lock file was made with does not carry these: their versions are locked, and nothing else. */
function isForOthers({ optional, os, cpu, libc }: Locked): boolean {
  const ours =
    (os ?? ['linux']).includes('linux') &&
    (cpu ?? ['x64']).some((each) => each === 'x64' || each === 'arm64') &&
    (libc ?? ['glibc']).includes('glibc');
  return optional === true && !ours;
}

t.test('every package is locked by its checksum, and comes from a registry', async (t) => {
  t.ok(packages.length > 100);
  for (const [path, locked] of packages) {
    const { version, integrity, resolved, link, inBundle } = locked;
    t.notOk(link, `${path} is a package`);
    t.match(version, /^\d+\.\d+\.\d+/, path);
    // What comes inside another package is under that one's checksum.
    if (inBundle !== true && !(integrity === undefined && isForOthers(locked)))
      t.match(integrity, /^sha512-/, `${path} has a checksum`);
    if (resolved !== undefined) t.notMatch(resolved, /^(git|http:|file:)|github/, path);
  }
});

t.test('what is asked for is one version, not a range', async (t) => {
  const { dependencies, optionalDependencies, devDependencies } = manifest;
  const asked = { ...dependencies, ...optionalDependencies, ...devDependencies };
  for (const [name, version] of Object.entries(asked)) {
    t.match(version, /^(npm:[\w./@-]+@)?\d+\.\d+\.\d+$/, `${name} ${version}`);
  }
});

t.test('no script has to run to install, and there is none of ours', async (t) => {
  const hooks = ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'];
  for (const hook of hooks) t.notOk(hook in manifest.scripts, hook);
  const withScript = packages.filter(([, { hasInstallScript }]) => hasInstallScript);
  const known = [
    // Each brings what it would build, as a package of its own for each platform.
    'koffi',
    'lmdb',
    'msgpackr-extract',
    'node-llama-cpp',
    // Asks for money on a terminal.
    'tesseract.js',
    // Of tests alone, for macOS.
    'fsevents',
    'esbuild',
  ];
  for (const [path] of withScript) {
    const name = path.split('node_modules/').at(-1) ?? '';
    t.ok(known.includes(name), `${name} has an install script that nobody looked at`);
  }
});

t.test('licences of what is shipped allow it', async (t) => {
  const allowed = /\b(MIT|ISC|BSD|Apache|0BSD|MPL|CC0|Unlicense|BlueOak|Python-2\.0|Zlib|WTFPL)/i;
  // Of an age in which the field had another form; both are MIT.
  const old = ['node_modules/busboy', 'node_modules/streamsearch'];
  for (const [path, locked] of packages) {
    const { dev, license } = locked;
    if (dev === true || old.includes(path) || (license === undefined && isForOthers(locked)))
      continue;
    t.match(license ?? 'none', allowed, path);
  }
});

t.test('the list of parts names all that is shipped', async (t) => {
  // With `--omit=dev` npm leaves out what is shipped and needed by a tool of the tests as well.
  const text = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx', '--package-lock-only'], {
    cwd: root,
    maxBuffer: 64 * 2 ** 20,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const sbom = JSON.parse(text.toString()) as {
    bomFormat: string;
    components: {
      name: string;
      group?: string;
      hashes?: unknown[];
      properties: { name: string }[];
    }[];
  };
  const isShipped = ({ properties }: { properties: { name: string }[] }) =>
    !properties.some(({ name }) => name === 'cdx:npm:package:development');
  t.equal(sbom.bomFormat, 'CycloneDX');
  const names = new Set(
    sbom.components
      .filter(isShipped)
      .map(({ name, group }) => (group === undefined ? name : `${group}/${name}`)),
  );
  for (const name of Object.keys(manifest.dependencies)) {
    t.ok(
      [...names].some((each) => each.endsWith(name) || name === 'uWebSockets.js'),
      name,
    );
  }
});

t.test('every addon file of the front end has the bytes that were looked at', async (t) => {
  const folder = dirname(createRequire(import.meta.url).resolve('uWebSockets.js'));
  const names = readdirSync(folder).filter((name) => name.endsWith('.node'));
  t.same(names.sort(), Object.keys(addonChecksums).sort(), 'none is added, none is missing');
  for (const name of names) t.equal(await addonFault(folder, name), null, name);
  const [name = ''] = names;
  const copy = t.testdir();
  copyFileSync(join(folder, name), join(copy, name));
  t.equal(await addonFault(copy, name), null);
  const bytes = readFileSync(join(copy, name));
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
  writeFileSync(join(copy, name), bytes);
  t.match(await addonFault(copy, name), /has the SHA-256 [0-9a-f]{64}, not/, 'one changed bit');
});

t.test('the reader of archives has the cure of its known fault', async (t) => {
  const { version = '' } = lock.packages['node_modules/yauzl'] ?? {};
  t.ok(version.localeCompare('3.4.0', 'en', { numeric: true }) >= 0, version);
});
