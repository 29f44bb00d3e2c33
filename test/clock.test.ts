/** Owns the proof of what the clocks keep alive, and of bytes that are never given twice, whatever lengths are asked for. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { systemRandom } from '../src/clock.js';

t.test('each draw is new, of the length asked for, and not changed by the next', async (t) => {
  const seen = new Set<string>();
  const kept = systemRandom(16);
  const before = kept.toString('hex');
  for (let i = 0; i < 2_000; i++) seen.add(systemRandom(16).toString('hex'));
  t.equal(seen.size, 2_000, 'across many refills');
  t.notOk(seen.has(before));
  t.equal(kept.toString('hex'), before);
  t.notOk(seen.has('0'.repeat(32)), 'nothing wiped is given out');
});

t.test('any length: none, a whole draw, and more than one', async (t) => {
  for (const length of [0, 1, 4_095, 4_096, 4_097, 100_000]) {
    t.equal(systemRandom(length).length, length);
  }
});

t.test('only the timers of the wakeful clock keep a process alive', async (t) => {
  const url = new URL('../src/clock.js', import.meta.url).href;
  const said = async (code: string) => {
    const text = `import { systemClock, wakefulClock } from '${url}'; ${code}`;
    const args = ['--input-type=module', '--eval', text];
    return (await promisify(execFile)(process.execPath, args, { timeout: 60_000 })).stdout;
  };
  const task = `() => console.log('ran')`;
  t.equal(await said(`wakefulClock.after(20, ${task});`), 'ran\n');
  t.equal(await said(`systemClock.after(600_000, ${task});`), '', 'it ends before');
  t.equal(await said(`wakefulClock.after(600_000, ${task})();`), '', 'nor what was cancelled');
});
