/**
 * Owns one file of all that tap is, where the built tests find it first: read as some 300 files, tap takes each file of tests a
 * quarter of a second of a core more.
 * It must never change what tap does: it lies in a folder of tap's own scope, which tap leaves out of stacks.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const modules = fileURLToPath(new URL('../../node_modules', import.meta.url));
await build({
  stdin: {
    contents: "export * from 'tap'; export { default } from 'tap';",
    resolveDir: fileURLToPath(new URL('../../..', import.meta.url)),
  },
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  outfile: join(modules, '@tapjs/bundle/index.mjs'),
  logLevel: 'warning',
  // Some of its parts are CommonJS.
  banner: {
    js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
  },
});
const tap = join(modules, 'tap');
mkdirSync(tap, { recursive: true });
writeFileSync(join(tap, 'package.json'), '{ "type": "module", "exports": "./index.js" }\n');
writeFileSync(
  join(tap, 'index.js'),
  "export * from '../@tapjs/bundle/index.mjs';\nexport { default } from '../@tapjs/bundle/index.mjs';\n",
);
