/**
 * Owns the proof that test files which want the same program at once have it made once.
 * It must never run Go: what stands in for it makes a file when the test lets it.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

const GO = `#!/bin/sh
echo "$*" >> "$HOME/calls"
turns=0
until [ -e "$HOME/gate" ]; do
  [ -d "$HOME" ] && [ $turns -lt 5000 ] || exit 1
  turns=$((turns + 1))
  sleep 0.02
done
echo made > "$GOBIN/tool"
`;

function machine(t: Test) {
  const home = temporaryFolder(t);
  writeFileSync(join(home, 'calls'), '');
  writeFileSync(join(home, 'go'), GO);
  chmodSync(join(home, 'go'), 0o755);
  const folder = join(home, '.cache/preface/test-tools/tool-v1.0.0');
  mkdirSync(folder, { recursive: true });
  const calls = () => readFileSync(join(home, 'calls'), 'utf8').split('\n').filter(Boolean);
  return { home, folder, calls, open: () => writeFileSync(join(home, 'gate'), '') };
}

/** A test file in a process of its own. */
function wants(t: Test, home: string, makeMsMax?: number) {
  const source = `
    const { goTool } = await import(process.argv[1]);
    const startMs = performance.now();
    const made = goTool('example.org/x/tool', 'v1.0.0', ${makeMsMax});
    console.log('asked');
    console.log(JSON.stringify(await made));
    console.log('after', performance.now() - startMs);`;
  const url = new URL('../support/go-tool.js', import.meta.url).href;
  const env = { HOME: home, PATH: `${home}:${process.env.PATH}` };
  const child = spawn(process.execPath, ['--input-type=module', '-e', source, url], { env });
  t.teardown(() => void child.kill('SIGKILL'));
  let out = '';
  child.stdout.on('data', (text: Buffer) => {
    out += text.toString();
  });
  return { out: () => out };
}

t.test('of several at once one makes it, and all have it', async (t) => {
  const { home, calls, open } = machine(t);
  const files = [wants(t, home), wants(t, home), wants(t, home)];
  await until(() => files.every((file) => file.out().includes('asked')), 60_000, 'all ask');
  await until(() => calls().length > 0, 60_000, 'one makes it');
  open();
  await until(() => files.every((file) => file.out().includes('program')), 60_000, 'all have it');
  t.equal(calls().length, 1);
  t.match(calls()[0], /^install .*example\.org\/x\/tool@v1\.0\.0$/);
});

/** What the lock of a process that was killed holds. */
function deadPid(): string {
  return String(spawnSync(process.execPath, ['-e', '']).pid);
}

t.test('one that was killed does not keep it from the others', async (t) => {
  const { home, folder, calls, open } = machine(t);
  writeFileSync(join(folder, 'lock-1'), deadPid());
  const files = [wants(t, home), wants(t, home), wants(t, home)];
  await until(() => files.every((file) => file.out().includes('asked')), 60_000, 'all ask');
  await until(() => calls().length > 0, 60_000, 'one makes it');
  t.ok(existsSync(join(folder, 'lock-1')), 'nobody removes a lock that is not its own');
  open();
  await until(() => files.every((file) => file.out().includes('after')), 60_000, 'all have it');
  for (const file of files) t.match(file.out(), /"program"/);
  t.equal(calls().length, 1);
  t.same(readdirSync(folder).sort(), ['lock-1', 'tool']);
});

t.test('a lock without a holder is nobody’s', async (t) => {
  const { home, folder, calls, open } = machine(t);
  open();
  writeFileSync(join(folder, 'lock-1'), '');
  const file = wants(t, home);
  await until(() => file.out().includes('program'), 60_000, 'it is made');
  t.equal(calls().length, 1);
});

t.test('an old lock is nobody’s, whatever process has its number now', async (t) => {
  const { home, folder, calls, open } = machine(t);
  open();
  const lock = join(folder, 'lock-1');
  writeFileSync(lock, String(process.pid));
  const hourAgo = new Date(Date.now() - 3_600_000);
  utimesSync(lock, hourAgo, hourAgo);
  const file = wants(t, home);
  await until(() => file.out().includes('program'), 60_000, 'it is made');
  t.equal(calls().length, 1);
});

t.test('what a build that was killed left goes with the next build', async (t) => {
  const { home, folder, open } = machine(t);
  open();
  writeFileSync(join(folder, 'lock-1'), deadPid());
  mkdirSync(join(folder, 'install-killed/path'), { recursive: true });
  const file = wants(t, home);
  await until(() => file.out().includes('after'), 60_000, 'it is made');
  t.match(file.out(), /"program"/);
  t.notOk(existsSync(join(folder, 'install-killed')));
});

t.test('wait and install have one bound', async (t) => {
  const { home, folder, calls } = machine(t);
  const lock = join(folder, 'lock-1');
  writeFileSync(lock, String(process.pid));
  const boundMs = 8_000;
  const file = wants(t, home, boundMs);
  await until(() => file.out().includes('asked'), 60_000, 'it asks');
  // Most of the bound goes by while another holds the lock.
  await delay(0.75 * boundMs);
  t.equal(calls().length, 0);
  rmSync(lock);
  await until(() => file.out().includes('after'), 60_000, 'it gives up');
  t.match(file.out(), /"missing"/);
  t.equal(calls().length, 1, 'its turn came');
  const afterMs = Number(/after (\S+)/.exec(file.out())?.[1]);
  t.ok(afterMs < 1.5 * boundMs, `${afterMs} ms`);
});
