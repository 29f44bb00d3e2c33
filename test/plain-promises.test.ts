/**
 * Owns the proof that a file of a whole run fails by an error that nobody awaits, although no promise is followed there, and that what
 * it says of places is of the sources, although its process has no maps.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { temporaryFolder } from './support/service.js';
import { inSources } from './support/source-positions.js';
import { until } from './support/until.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const plain = new URL('./support/plain-promises.js', import.meta.url).href;
const tap = import.meta.resolve('tap');

/** What a file says whose only test does that and then waits. */
function outcomeOf(doing: string) {
  const file = join(temporaryFolder(t), 'file.mjs');
  const wait = 'await new Promise((go) => setTimeout(go, 100));';
  writeFileSync(
    file,
    `import hooks from 'node:async_hooks'; import t from '${tap}';
    t.test('one', async (t) => { ${doing}; ${wait} t.pass(); });`,
  );
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', plain, file], {
    encoding: 'utf8',
  });
  return { status, said: stdout + stderr };
}

t.test('an error that nobody awaits fails the file, and is shown', async (t) => {
  for (const doing of [
    "setTimeout(() => { throw new Error('lost'); })",
    "setTimeout(async () => { throw new Error('lost'); })",
    "void Promise.reject(new Error('lost'))",
    "throw new Error('lost')",
  ]) {
    const { status, said } = outcomeOf(doing);
    t.not(status, 0, doing);
    t.match(said, /lost/, doing);
  }
});

t.test('no hook hears of a promise', async (t) => {
  const hear = 'let heard = 0; hooks.createHook({ init: () => { heard += 1; } }).enable()';
  const { status, said } = outcomeOf(`${hear}; await null; t.equal(heard, 0)`);
  t.equal(status, 0, said);
});

t.test('a place in a built file is shown as that of its source', async (t) => {
  const fault = await until(() => false, 0, 'thrown here').catch((cause: unknown) => cause);
  const stack = (fault as Error).stack ?? '';
  t.match(stack, /until\.[jt]s:\d+:\d+/);
  const line = readFileSync(join(root, 'test/support/until.ts'), 'utf8')
    .split('\n')
    .findIndex((text) => text.includes('throw new Error('));
  const [shown] = /test\/support\/until\.ts:\d+/.exec(inSources(stack)) ?? [];
  t.equal(shown, `test/support/until.ts:${line + 1}`);
  const strange = 'at x (/elsewhere/dist/none.js:1:2) and dist/none.js:3:4';
  t.equal(inSources(strange), strange, 'what has no map stays');
});
