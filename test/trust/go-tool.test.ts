/**
 * Owns the proof that test files which want the same program at once have it made once.
 * It must never run Go: what stands in for it makes a file when the test lets it.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

const GO = `#!/bin/sh
echo "$*" >> "$HOME/calls"
until [ -e "$HOME/gate" ]; do sleep 0.02; done
echo made > "$GOBIN/tool"
`;

function machine(t: Test) {
  const home = temporaryFolder(t);
  writeFileSync(join(home, 'calls'), '');
  writeFileSync(join(home, 'go'), GO);
  chmodSync(join(home, 'go'), 0o755);
  const calls = () => readFileSync(join(home, 'calls'), 'utf8').split('\n').filter(Boolean);
  return { home, calls, open: () => writeFileSync(join(home, 'gate'), '') };
}

/** A test file in a process of its own. */
function wants(t: Test, home: string) {
  const source = `
    const { goTool } = await import(process.argv[1]);
    const made = goTool('example.org/x/tool', 'v1.0.0');
    console.log('asked');
    console.log(JSON.stringify(await made));`;
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

t.test('one that was killed does not keep it from the others', async (t) => {
  const { home, calls, open } = machine(t);
  open();
  const folder = join(home, '.cache/preface/test-tools/tool-v1.0.0');
  mkdirSync(folder, { recursive: true });
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  writeFileSync(join(folder, 'lock'), String(pid));
  const file = wants(t, home);
  await until(() => file.out().includes('program'), 60_000, 'it is made');
  t.equal(calls().length, 1);
});
