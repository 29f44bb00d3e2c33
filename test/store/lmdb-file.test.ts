/**
 * Owns the proof that records which a service is writing are never taken for damaged ones.
 * It must never let the reader and the writer share a process: within one they would take turns.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { assertIntact } from '../../src/store/lmdb-file.js';

const writer = fileURLToPath(new URL('../support/growing-records.js', import.meta.url));

t.setTimeout(120_000);

const STRETCHES = 20;
const COMMITS = 20;
/** While it grows there is one burst at least, however quick the writer is. */
const BURST = 100;

t.test('a file that grows meanwhile is not cut short', async (t) => {
  const folder = t.testdir({});
  const child = fork(writer, [folder]);
  t.teardown(() => child.kill());
  const seen = { grown: 0, looks: 0 };
  child.on('message', (grown: number) => {
    seen.grown = grown;
  });
  for (let stretch = 1; stretch <= STRETCHES; stretch += 1) {
    child.send(COMMITS);
    while (seen.grown < stretch * COMMITS && child.connected) {
      for (let at = 0; at < BURST; at += 1) assertIntact(folder, join(folder, 'records.mdb'));
      seen.looks += BURST;
      await setImmediate();
    }
  }
  t.equal(seen.grown, STRETCHES * COMMITS);
  t.ok(seen.looks >= STRETCHES * BURST, `${seen.looks} looks`);
  const ended = once(child, 'exit');
  child.disconnect();
  t.same(await ended, [0, null]);
});
