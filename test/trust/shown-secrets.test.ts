/**
 * Owns the proof that a process of the same user does not find the service's keys in what the system shows of the service.
 * It must never look for them in files: those are the user's own.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { SEEN } from '../support/engine-curious.js';
import { serviceEnv, temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const engine = fileURLToPath(new URL('../support/engine-curious.js', import.meta.url));
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
const skip = existsSync('/proc/self/environ') ? false : 'there is no /proc';
const keys = {
  PREFACE_ADMIN_KEY: 'the-key-of-the-operator',
  PREFACE_METRICS_KEY: 'the-key-of-metrics',
  OTHER_API_TOKEN: 'a-token-of-something-else',
};

/** @returns what the inference process saw of its parent. */
function seenIn(dataDir: string): { readonly environ: string; readonly cmdline: string } {
  return JSON.parse(readFileSync(join(dataDir, 'engine', SEEN), 'utf8'));
}

async function ask(t: Test, url: string): Promise<void> {
  const models = await fetch(`${url}/models`, {
    headers: { authorization: 'Bearer key-of-alice' },
  });
  t.equal(models.status, 200, 'the keys hold all the same');
}

t.test(
  'an inference process finds no key in the environment of the service',
  { skip },
  async (t) => {
    const dataDir = join(temporaryFolder(t), 'data');
    const env = { ...keys, PREFACE_DATA_DIR: dataDir, PREFACE_ENGINE: engine, LANG: 'C.UTF-8' };
    const service = await startServiceProcess(t, {}, env);
    const { environ } = seenIn(dataDir);
    t.match(environ, /(^|\0)PREFACE_DATA_DIR=/, 'it can read what is not secret');
    for (const secret of [...Object.values(keys), 'key-of-alice', 'key-of-bob']) {
      t.notMatch(environ, secret);
    }
    await ask(t, service.url);
    const admin = await fetch(`${service.url.slice(0, -3)}/admin/v1/users`, {
      headers: { authorization: `Bearer ${keys.PREFACE_ADMIN_KEY}` },
    });
    t.equal(admin.status, 200);
  },
);

t.test('a key given as a flag is not in the list of processes', { skip }, async (t) => {
  const dataDir = join(temporaryFolder(t), 'data');
  const { PREFACE_API_KEYS, ...env } = serviceEnv(dataDir);
  const flags = ['--api-keys', PREFACE_API_KEYS ?? '', '--engine', engine];
  const child = spawn(process.execPath, [cli, 'serve', ...flags], {
    env: { PATH: process.env.PATH ?? '', ...env, PREFACE_ENGINE: 'echo' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
  });
  const url = () => /listening on (\S+)$/m.exec(out)?.[1];
  t.ok(await until(() => url() !== undefined, 60_000));
  const { cmdline } = seenIn(dataDir);
  t.notMatch(cmdline, 'key-of-');
  t.match(cmdline, /^preface serve/);
  await ask(t, url() ?? '');
});
