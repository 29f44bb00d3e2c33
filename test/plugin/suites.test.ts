/** The suites of the contracts, run by Node's own runner: the author of a plugin needs no other. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const program = fileURLToPath(new URL('../support/suites-under-node.js', import.meta.url));

function run(...args: string[]) {
  // Without it the program would take itself for a part of the run that started it.
  const env = { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR };
  return spawnSync(process.execPath, [program, ...args], { env, encoding: 'utf8' });
}

t.test('plugins that keep the contracts pass', async (t) => {
  const { status, stdout, stderr } = run();
  t.equal(status, 0, stderr);
  t.match(stdout, /fail 0/);
  for (const name of ['streams know nothing of each other', 'a cancelled choice stops alone']) {
    t.ok(stdout.includes(name), name);
  }
  t.ok(stdout.includes('a kept prefix outlives the engine'));
});

t.test('a plugin that does not is named with the test it fails', async (t) => {
  const { status, stdout } = run('broken');
  t.equal(status, 1);
  t.match(stdout, /an input is rejected when any of its texts is/);
  t.match(stdout, /fail [1-9]/);
});
