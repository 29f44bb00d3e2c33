/**
 * The guide of n8n: its command line takes both files of the guide and executes the workflow.
 * It brings 1.6 GB and minutes of installing: it runs where it is installed, or with `TEST_HARNESSES=1`.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { isReady, settledFolder } from '../../sdk/settled-folder.js';
import { temporaryFolder } from '../../support/service.js';
import { startServiceProcess } from '../../support/service-process.js';
import { until } from '../../support/until.js';
import { blockOf, cacheFolder, filled, runBlock, writeIn } from './guide.js';

const run = promisify(execFile);
/** The newest of those that run on Node 20. */
const VERSION = '1.123.81';
/** Of the installing, and of the compiling behind it: with the run less than what the suite gives a file. */
const STEP_MS_MAX = 3.5 * 60_000;

t.setTimeout(600_000);

/** One of its packages is fetched from a site of its own: here it comes from the registry, under another name. */
const MANIFEST = { private: true, overrides: { xlsx: 'npm:@e965/xlsx@0.20.3' } };

async function install(): Promise<{ readonly folder: string } | { readonly missing: string }> {
  const folder = join(cacheFolder, 'test-tools', `n8n-${VERSION}`);
  if (process.env.TEST_HARNESSES !== '1' && !isReady(folder)) {
    return { missing: 'TEST_HARNESSES=1 installs n8n' };
  }
  const lean = ['--ignore-scripts', '--no-audit', '--no-fund', '--omit=dev', '--omit=optional'];
  try {
    await settledFolder(folder, async (made) => {
      const npm = (...args: readonly string[]) =>
        run('npm', [...args, '--prefix', made], { cwd: made, timeout: STEP_MS_MAX });
      writeFileSync(join(made, 'package.json'), JSON.stringify(MANIFEST));
      await npm('install', ...lean, `n8n@${VERSION}`);
      // Its database is compiled, or fetched: the one script that has to run.
      await npm('rebuild', 'sqlite3', '--ignore-scripts=false', '--foreground-scripts');
    });
    return { folder };
  } catch (cause) {
    return { missing: `no n8n@${VERSION}: ${String(cause).split('\n')[0]}` };
  }
}

const made = await install();

t.test('the workflow asks', { skip: 'missing' in made ? made.missing : false }, async (t) => {
  if ('missing' in made) return;
  const service = await startServiceProcess(t, {});
  const place = { home: temporaryFolder(t), programs: [join(made.folder, 'node_modules/.bin')] };
  writeIn(place, 'credential.json', filled(blockOf('n8n', 'jsonc', 0), service));
  writeIn(place, 'workflow.json', filled(blockOf('n8n', 'jsonc', 1), service));
  const env = {
    N8N_USER_FOLDER: place.home,
    N8N_ENCRYPTION_KEY: 'of-this-test',
    N8N_DIAGNOSTICS_ENABLED: 'false',
    N8N_VERSION_NOTIFICATIONS_ENABLED: 'false',
    // The other engine and the runners are native or processes of their own; the workflow has no code for them.
    N8N_EXPRESSION_ENGINE: 'legacy',
    N8N_RUNNERS_ENABLED: 'false',
  };
  const said = await runBlock(blockOf('n8n', 'sh'), place, env);
  t.match(said, /"text": "Say hello"/);
  // The line of the log comes after the answer.
  const isLogged = () => /"route":"POST \/v1\/chat\/completions","status":200/.test(service.log());
  t.ok(await until(isLogged));
});
