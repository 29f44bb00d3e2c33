/** Owns the proof that a child which the system cannot start ends nothing but itself. */
import { spawnSync } from 'node:child_process';
import t from 'tap';

/** Takes all descriptors, then starts children as readers and programs for pictures are started. */
const script = `
const { openSync } = await import('node:fs');
const { onBeat, spawnCommand } = await import(process.argv[1]);
try {
  for (;;) openSync('/dev/null');
} catch {}
for (const filter of [null, Buffer.alloc(8)]) {
  const command = { file: '/bin/true', args: [], uid: null, filter, sessionNice: null };
  const child = spawnCommand(command, ['pipe', 'pipe', 'ignore', 'pipe']);
  onBeat(child, () => {});
  if (child.pid === undefined) process.exitCode = 7;
}
`;

t.test('without a free descriptor a child has no pipes, and nobody fails', async (t) => {
  const child = new URL('../../src/pool/child.js', import.meta.url).href;
  const args = ['-c', 'ulimit -n 40; exec "$@"', 'bash', process.execPath];
  const run = [...args, '--input-type=module', '-e', script, child];
  const { status, stderr } = spawnSync('bash', run, { encoding: 'utf8' });
  t.equal(status, 7, stderr);
});
