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

t.test('a file that grows meanwhile is not cut short', async (t) => {
  const folder = t.testdir({});
  const child = fork(writer, [folder, '400']);
  t.teardown(() => child.kill());
  await once(child, 'message');
  let looks = 0;
  while (child.exitCode === null) {
    for (let burst = 0; burst < 100; burst += 1) assertIntact(folder, join(folder, 'records.mdb'));
    looks += 100;
    await setImmediate();
  }
  t.equal(child.exitCode, 0);
  t.ok(looks > 1000, `${looks} looks`);
});
