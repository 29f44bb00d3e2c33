/**
 * Programs that check whether a service speaks OpenAI's API, unmodified: nothing is missed on either engine.
 */
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { pythonVenv } from '../sdk/python-venv.js';
import { skipWithoutWeights } from '../support/weights.js';
import { startHarnessServices } from './services.js';

const run = promisify(execFile);
const RUN_MS_MAX = 300_000;
const MODEL = 'svc-v1-8k';
const CHECK = 'trustedrouter-provider-check';
const compatcanary = fileURLToPath(
  new URL('../../../node_modules/.bin/compatcanary', import.meta.url),
);

/** What it can only warn of here: a catalog of its own, several calls at once, and whether an echo of some ms comes in pieces. */
const UNTRIED = [
  'catalog.declared-v2',
  'tools.parallel-deltas',
  'tools.round-trip',
  'stream.incremental-delivery',
];

t.setTimeout(600_000);

/** What one of them found wrong is in what it wrote, whatever its exit code. */
async function written(
  file: string,
  args: readonly string[],
  key: Readonly<Record<string, string>>,
) {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...key };
  const ran = run(file, args, { env, timeout: RUN_MS_MAX });
  return (await ran.catch((cause: { stdout: string }) => cause)).stdout;
}

t.test('checkers', { skip: skipWithoutWeights }, async (t) => {
  const { env } = await startHarnessServices(t);
  const { API_KEY = '', ECHO_URL = '', REAL_URL = '' } = env;
  for (const [engine, url] of Object.entries({ echo: ECHO_URL, 'a real model': REAL_URL })) {
    await t.test(`CompatCanary on ${engine}`, async (t) => {
      const args = ['scan', '--base-url', url, '--model', MODEL, '--format', 'json'];
      const report = await written(compatcanary, args, { OPENAI_API_KEY: API_KEY });
      const { score, summary } = JSON.parse(report);
      t.equal(score, 100);
      t.match(summary, { passes: 7, warnings: 0, failures: 0 }, { report });
    });
  }
  const venv = await pythonVenv(`${CHECK}-0.1.8`, [`${CHECK}==0.1.8`]);
  const skip = 'missing' in venv ? venv.missing : false;
  await t.test('the check of TrustedRouter', { skip }, async (t) => {
    if (!('python' in venv)) return;
    const program = join(dirname(venv.python), CHECK);
    const args = ['--base-url', ECHO_URL, '--model', MODEL, '--tier', '5', '--json', '-'];
    const report = await written(program, args, { TR_PROVIDER_API_KEY: API_KEY });
    const { checks } = JSON.parse(report) as { checks: { id: string; status: string }[] };
    const missed = checks.filter(({ status }) => status !== 'pass');
    t.ok(checks.length > 20, report);
    t.same(
      missed.filter(({ id, status }) => status === 'fail' || !UNTRIED.includes(id)),
      [],
      report,
    );
  });
});
