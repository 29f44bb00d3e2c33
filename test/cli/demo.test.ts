/**
 * Owns the proof that `preface demo` shows what a cache saves, on a running service and on one of its own.
 * It must never compare times: those of a small machine in a busy hour prove nothing.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { aliceKey, openService, temporaryFolder } from '../support/service.js';
import { until } from '../support/until.js';

const run = promisify(execFile);
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
const env = { PATH: process.env.PATH, HOME: homedir(), PREFACE_ENGINE: 'echo' };

t.setTimeout(300_000);

async function demo(...args: string[]): Promise<string> {
  return await demoIn(undefined, ...args);
}

/** Its temporary files are in a folder of their own: another run of this test may have some now. */
async function demoIn(folder: string | undefined, ...args: string[]): Promise<string> {
  const own = folder === undefined ? env : Object.assign({ TMPDIR: folder }, env);
  return (await run(process.execPath, [cli, 'demo', ...args], { env: own })).stdout;
}

/** [of the prompts, saved]. */
function savedIn(out: string): [number, number] {
  const [, saved, prompts] = /saved: (\d+) of (\d+) prompt tokens/.exec(out) ?? [];
  return [Number(prompts), Number(saved)];
}

t.test('on a running service, which keeps the cache alone', async (t) => {
  const service = await openService(t);
  const out = await demo('--url', service.url, '--key', aliceKey);
  const [prompts, saved] = savedIn(out);
  t.ok(saved > 0.9 * prompts, out);
  t.equal(out.match(/without {2}█+ \d+\.\d\d s/g)?.length, 5);
  t.equal(out.match(/cached {3}█+ \d+\.\d\d s/g)?.length, 5);
  const dataOf = async (path: string) =>
    ((await (await service.call('GET', path)).json()) as { data: object[] }).data;
  t.same(await dataOf('/files'), []);
  t.match(await dataOf('/caching/refs/tags'), [{ tag: 'preface-demo' }]);
  const [, code = ''] = /\n(curl -i[\s\S]*)$/.exec(out) ?? [];
  const shell = { ...env, OPENAI_BASE_URL: service.url, OPENAI_API_KEY: aliceKey };
  const { stdout } = await run('sh', ['-c', code], { env: shell });
  t.match(stdout, /svc-context-cache-status: hit/i, 'the line runs as it stands there');
});

t.test('a wrong key is said, and one without an address is refused', async (t) => {
  const service = await openService(t);
  await t.rejects(demo('--url', service.url, '--key', 'wrong'), /401/);
  await t.rejects(demo('--key', 'wrong'), /belong together/);
});

t.test('on a service of its own, which leaves nothing', async (t) => {
  const folder = temporaryFolder(t);
  const [prompts, saved] = savedIn(await demoIn(folder));
  t.ok(saved > 0.9 * prompts, `${saved} of ${prompts}`);
  t.same(
    readdirSync(folder).filter((name) => name.startsWith('preface-demo-')),
    [],
  );
});

/** Numbers of the processes that were started with the folder among their arguments. */
function runningIn(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder);
    } catch {
      return false;
    }
  });
}

const skip = existsSync('/proc/self/cmdline') ? false : 'there is no /proc';

t.test('told to stop, it takes its service and its data along', { skip }, async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const folder = temporaryFolder(t);
    const child = spawn(process.execPath, [cli, 'demo'], {
      env: Object.assign({ TMPDIR: folder }, env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const closed = once(child, 'close');
    let said = '';
    child.stdout.on('data', (text) => (said += text));
    child.stderr.on('data', (text) => (said += text));
    await until(() => said.includes('a service of its own'), 60_000, 'the service runs');
    t.not(runningIn(folder).length, 0);
    child.kill(signal);
    t.same(await closed, [signal === 'SIGTERM' ? 143 : 130, null]);
    t.same(
      readdirSync(folder).filter((name) => name.startsWith('preface-demo-')),
      [],
    );
    t.same(runningIn(folder), []);
    t.notMatch(said, /failed|error/i);
  }
});

t.test('its service takes the settings file, and an address that is none is refused', async (t) => {
  const file = join(temporaryFolder(t), 'settings.json');
  writeFileSync(file, '{"prot":1}');
  await t.rejects(demo('--config', file), /unknown setting prot/);
  await t.rejects(demo('--url', 'foo', '--key', 'x'), /--url must be an address/);
  await t.rejects(
    demo('--url', 'http://127.0.0.1:9/v1', '--key', 'x'),
    /127\.0\.0\.1:9.*ECONNREFUSED|bad port/,
  );
});
