/**
 * Owns the house rules that no compiler checks: who imports whom, one door a package, how a file opens.
 * It must never hold an exception that is not explained beside it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));
const FILE_LINES_MAX = 300;

/** Leaves: anyone may import them, and they import nothing but each other. */
const leaves = [
  'src/clock',
  'src/codec',
  'src/errors',
  'src/limits',
  'src/limits/upstream',
  'src/limits/weights',
  'src/limit-relations',
  'src/limits/extraction',
  'src/limits/review',
  'src/report',
];

/** What anyone may name; it stands on the settings, so it is no leaf itself. */
const forAnyone = [...leaves, 'src/config'];

/** Folder → folders or files it may import besides itself and the leaves. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  'src/protocol': [],
  // Types only: what a constraint and a vocabulary are.
  'src/rules': ['src/protocol', 'src/plugin/contract'],
  'src/store': ['src/rules/account-policy'],
  'src/plugin': [],
  // The prompt's segments are what the counter counts.
  'src/pool': ['src/plugin', 'src/rules/prompt'],
  'src/actors': ['src/rules', 'src/protocol', 'src/store/store', 'src/store/blobs', 'src/pool'],
  'src/settings': ['src/rules/account-policy', 'src/rules/account-change'],
  'src/chat': ['src/protocol', 'src/rules', 'src/actors', 'src/pool', 'src/plugin'],
  'src/http': ['src/protocol', 'src/rules', 'src/actors', 'src/pool', 'src/chat'],
  workers: ['src/plugin', 'src/pool'],
  plugins: ['src/plugin/contract'],
};

/** Top-level files of src: the composition root and what the operator touches. */
const isTop = (file: string) => dirname(file) === 'src';

interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
}

function sourceFiles(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.c?ts$/.test(file))
    .map((file) => join(folder, file));
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8');
  const found = text.matchAll(
    /^(?:import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\('([^']+)'\)|createRequire\([^)]*\)\('([^']+)'\)|^import \w+ = require\('([^']+)'\)/gm,
  );
  return [...found].map((match) => ({
    specifier: match[2] ?? match[3] ?? match[4] ?? match[5] ?? '',
    typeOnly: match[1] !== undefined,
  }));
}

/** `src/pool/host` for a relative import, the package's name for another, null for Node's own. */
function target(file: string, specifier: string): { local: string } | { npm: string } | null {
  if (specifier.startsWith('node:')) return null;
  if (specifier.startsWith('.')) {
    const path = relative(root, resolve(root, dirname(file), specifier));
    return { local: path.replace(/\.js$/, '') };
  }
  const parts = specifier.split('/');
  return { npm: parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/') };
}

function folderOf(file: string): string {
  return Object.keys(mayImport).find((folder) => file.startsWith(`${folder}/`)) ?? dirname(file);
}

const files = ['src', 'workers', 'plugins'].flatMap(sourceFiles);

t.test('each folder imports only what the table allows', async (t) => {
  for (const file of files) {
    const folder = folderOf(file);
    const allowed = [folder, ...forAnyone, ...(mayImport[folder] ?? [])];
    for (const { specifier } of isTop(file) ? [] : importsOf(file)) {
      const to = target(file, specifier);
      if (to === null || !('local' in to)) continue;
      const ok = allowed.some((place) => to.local === place || to.local.startsWith(`${place}/`));
      t.ok(ok, `${file} imports ${to.local}`);
    }
  }
});

t.test('leaves import only leaves', async (t) => {
  for (const leaf of leaves) {
    for (const { specifier } of importsOf(`${leaf}.ts`)) {
      const to = target(`${leaf}.ts`, specifier);
      if (to !== null && 'local' in to) t.ok(leaves.includes(to.local), `${leaf}: ${to.local}`);
    }
  }
});

t.test(
  'nothing imports http but main, and nothing imports main but the command line',
  async (t) => {
    for (const file of files) {
      for (const { specifier } of importsOf(file)) {
        const to = target(file, specifier);
        if (to === null || !('local' in to)) continue;
        if (to.local.startsWith('src/http/')) {
          t.ok(file.startsWith('src/http/') || file === 'src/main.ts', `${file}: ${to.local}`);
        }
        if (to.local === 'src/main') t.equal(file, 'src/cli.ts');
      }
    }
  },
);

t.test('plugins take nothing but types from the core', async (t) => {
  for (const file of files.filter((name) => name.startsWith('plugins/'))) {
    for (const { specifier, typeOnly } of importsOf(file)) {
      const to = target(file, specifier);
      const core = to !== null && 'local' in to && to.local.startsWith('src/');
      if (core && !leaves.includes(to.local)) t.ok(typeOnly, `${file}: ${specifier}`);
    }
  }
});

t.test('each package is imported in one file', async (t) => {
  const doors = new Map<string, Set<string>>();
  for (const file of files) {
    for (const { specifier, typeOnly } of importsOf(file)) {
      const to = target(file, specifier);
      // A type leaves no trace in what runs.
      if (to === null || !('npm' in to) || typeOnly) continue;
      doors.set(to.npm, (doors.get(to.npm) ?? new Set()).add(file));
    }
  }
  for (const [name, places] of doors) t.same([...places].length, 1, `${name}: ${[...places]}`);
});

t.test('every dependency has its door', async (t) => {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const used = new Set(
    files.flatMap((file) =>
      importsOf(file).flatMap(({ specifier }) => {
        const to = target(file, specifier);
        return to !== null && 'npm' in to ? [to.npm] : [];
      }),
    ),
  );
  // Languages of OCR are data: found by the names in the settings, imported by nobody.
  const isData = (name: string) => name.startsWith('@tesseract.js-data/');
  for (const name of Object.keys(manifest.dependencies)) t.ok(used.has(name) || isData(name), name);
});

t.test('a file opens with what it owns and what it must never do, and ends in time', async (t) => {
  for (const file of [...files, ...sourceFiles('bench')]) {
    const text = readFileSync(join(root, file), 'utf8').replace(/^#!.*\n/, '');
    t.match(text, /^\/\*\*[\s\S]*?\bOwns\b[\s\S]*?\*\//, `${file} says what it owns`);
    t.ok(text.split('\n').length <= FILE_LINES_MAX, `${file} has at most ${FILE_LINES_MAX} lines`);
  }
});

t.test('no test is run alone', async (t) => {
  for (const file of sourceFiles('test').filter((name) => name !== 'test/tidy.test.ts')) {
    t.notMatch(readFileSync(join(root, file), 'utf8'), /\bonly: true|\bt\.only\(/, file);
  }
});
