/** Owns the proof that who reads a document does not first load the libraries of all other kinds. */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { loadConfig } from '../../../src/settings/config.js';

const STATIC_IMPORT = /^(?:import|export)\s(?:[^;"]*?\sfrom\s)?"([^"]+)";/gm;

/** Of a built file and all that it loads before it runs. */
function packagesOf(file: URL, seen = new Set<string>()): string[] {
  if (seen.has(file.href)) return [];
  seen.add(file.href);
  const specifiers = [...readFileSync(file, 'utf8').matchAll(STATIC_IMPORT)].map(
    ([, to = '']) => to,
  );
  return specifiers.flatMap((to) => {
    if (to.startsWith('.')) return packagesOf(new URL(to, file), seen);
    return to.startsWith('node:') ? [] : [to];
  });
}

t.test('each reader of documents starts without the libraries of one kind alone', async (t) => {
  const { extractors } = loadConfig({ flags: {}, env: { HOME: '/' } });
  t.ok(extractors.length > 10);
  const all = extractors.map(
    (module) => [module, new Set(packagesOf(pathToFileURL(module)))] as const,
  );
  t.ok(
    all.some(([, packages]) => packages.has('htmlparser2')),
    'imports are found',
  );
  for (const [module, packages] of all) {
    // Most kinds are markup in one way or another.
    packages.delete('htmlparser2');
    packages.delete('preface/plugin');
    t.same([...packages], [], module);
  }
});
