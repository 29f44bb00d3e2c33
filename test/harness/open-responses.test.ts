/**
 * Open Responses: the cases of its compliance runner by its schema, and the runner itself where a checkout of it is named.
 * They run on an engine that repeats, on a real one, and on an upstream that sees and calls.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { nodePackages, packagesAreReady } from '../sdk/node-packages.js';
import { pythonVenv, venvIsReady } from '../sdk/python-venv.js';
import { runScenario } from '../sdk/services.js';
import { callsOrAnswers, FakeUpstream } from '../support/fake-upstream.js';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { skipWithoutWeights } from '../support/weights.js';

const INSTALL_MS_MAX = 5.5 * 60_000;
t.setTimeout(2 * INSTALL_MS_MAX);

const root = fileURLToPath(new URL('../../..', import.meta.url));
const isWanted = process.env.TEST_HARNESSES === '1';
const run = promisify(execFile);

const picture = readFileSync(join(root, 'test/documents/pictures/simple.png'));
const image = `data:image/png;base64,${picture.toString('base64')}`;
const call = { name: 'get_weather', arguments: '{"location":"San Francisco, CA"}' };

/** A service whose model sees, and calls the tool that it is given. */
async function startSeeing(t: Test) {
  const fake = await FakeUpstream.open(t);
  fake.acts = [callsOrAnswers(call, 'a picture')];
  const upstreams = [{ url: fake.url, model: 'm' }];
  const seer = { engine: 'openai', tokenizer: 'bytes', window: 8192, upstreams, vision: true };
  return await startServiceProcess(t, { models: { 'svc-v1-8k': seer } });
}

const llama = { PREFACE_ENGINE: 'llama', PREFACE_THREADS: '1,1' };

t.test('the cases of its runner, each answer and event by its schema', async (t) => {
  const name = 'openresponses-types-2.4.0';
  const packages = ['openresponses-types==2.4.0'];
  const venv =
    isWanted || venvIsReady(name)
      ? await pythonVenv(name, packages, { installMsMax: INSTALL_MS_MAX })
      : { missing: `TEST_HARNESSES=1 installs ${packages}` };
  const skip = 'missing' in venv ? venv.missing : false;
  const script = join(root, 'test/harness/frameworks/openresponses_cases.py');
  const cases = async (t: Test, url: string, key: string, more = {}) => {
    if ('missing' in venv) return;
    const env = { CASES_URL: url, API_KEY: key, ...more };
    await runScenario(t, venv.python, [script], { env });
  };
  await t.test('on an engine that repeats', { skip }, async (t) => {
    const { url, key } = await startServiceProcess(t, {});
    await cases(t, url, key);
  });
  await t.test('on a real model', { skip: skip || skipWithoutWeights }, async (t) => {
    const { url, key } = await startServiceProcess(t, {}, llama);
    await cases(t, url, key);
  });
  await t.test('on an upstream that sees and calls', { skip }, async (t) => {
    const { url, key } = await startSeeing(t);
    await cases(t, url, key, { CASES_IMAGE: image, CASES_CALL: '1' });
  });
});

const CHECKOUT = process.env.TEST_OPENRESPONSES;
/** What a model does by itself, or not at all. */
const OF_A_MODEL = new Set(['tool-calling', 'image-input']);
/** The runner gives each of these turns 30 s, which a small machine under load may need for one answer. */
const TIMED = /^websocket-/;

interface RunnerResult {
  readonly id: string;
  readonly status: string;
  readonly errors?: readonly string[];
}

t.test(
  'its own runner',
  { skip: !CHECKOUT && 'TEST_OPENRESPONSES names a checkout of it' },
  async (t) => {
    const bundle = join(temporaryFolder(t), 'runner.mjs');
    const zod = ['zod@3.25.76'];
    const made =
      isWanted || packagesAreReady('zod-3.25.76')
        ? await nodePackages('zod-3.25.76', zod, INSTALL_MS_MAX)
        : { missing: `TEST_HARNESSES=1 installs ${zod}` };
    if ('missing' in made) throw new Error(made.missing);
    const options = ['--bundle', '--platform=node', '--format=esm', `--outfile=${bundle}`];
    const source = join(CHECKOUT ?? '', 'bin/compliance-test.ts');
    const env = { ...process.env, NODE_PATH: join(made.folder, 'node_modules') };
    await run(join(root, 'node_modules/.bin/esbuild'), [source, ...options], { env });
    const results = async (url: string, key: string): Promise<readonly RunnerResult[]> => {
      const args = ['--experimental-websocket', bundle, '--json', '-u', url, '-k', key];
      // It ends with 1 where a case failed, and tells which.
      const told = await run(process.execPath, [...args, '-m', 'svc-v1-8k']).catch(
        (cause: { stdout: string }) => cause,
      );
      return (JSON.parse(told.stdout) as { results: RunnerResult[] }).results;
    };
    const failed = async (t: Test, url: string, key: string) => {
      const all = await results(url, key);
      t.ok(all.length >= 6, `${all.length} cases`);
      t.comment(all.map(({ id, status }) => `${id} ${status}`).join(', '));
      return all.filter(({ status }) => status !== 'passed');
    };
    await t.test('on an upstream that sees and calls', async (t) => {
      const { url, key } = await startSeeing(t);
      t.same(await failed(t, url, key), []);
    });
    await t.test('on an engine that repeats', async (t) => {
      const { url, key } = await startServiceProcess(t, {});
      const others = (await failed(t, url, key)).filter(({ id }) => !OF_A_MODEL.has(id));
      t.same(others, []);
    });
    await t.test('on a real model', { skip: skipWithoutWeights }, async (t) => {
      const { url, key } = await startServiceProcess(t, {}, llama);
      const all = await failed(t, url, key);
      const others = all.filter(({ id }) => !OF_A_MODEL.has(id) && !TIMED.test(id));
      t.same(others, []);
    });
  },
);
