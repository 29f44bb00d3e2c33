/** Tests that make the same thing take turns, and none waits for one that has ended. */
import { spawnSync } from 'node:child_process';
import { existsSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { alone } from './support/alone.js';
import { temporaryFolder } from './support/service.js';

t.test('one after the other, whatever becomes of each', async (t) => {
  const file = join(temporaryFolder(t), 'lock');
  let inside = 0;
  let most = 0;
  const act = async (number: number) => {
    inside += 1;
    most = Math.max(most, inside);
    for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
    inside -= 1;
    if (number === 2) throw new Error('it failed');
    return number;
  };
  const ends = await Promise.allSettled([1, 2, 3].map((number) => alone(file, () => act(number))));
  t.same(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  t.equal(most, 1);
  t.notOk(existsSync(file));
});

t.test('what an interrupted run left keeps nobody', async (t) => {
  const file = join(temporaryFolder(t), 'lock');
  writeFileSync(file, String(spawnSync('true').pid));
  t.equal(await alone(file, async () => 'made'), 'made');
  // Its number is one of another process now.
  writeFileSync(file, String(process.pid));
  utimesSync(file, 0, 0);
  t.equal(await alone(file, async () => 'made'), 'made');
});
