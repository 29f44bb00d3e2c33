/**
 * Tools of others read the service's own OpenAPI document: two linters, and two makers of clients whose code then calls it.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { runScenario } from '../sdk/services.js';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { npmTool } from './npm-tool.js';
import { harnessVenv } from './tool.js';

const run = promisify(execFile);
const RUN_MS_MAX = 120_000;
const script = fileURLToPath(new URL('../../../test/harness/generated_client.py', import.meta.url));

t.setTimeout(900_000);

const service = await startServiceProcess(t, {});
const folder = temporaryFolder(t);
const document = join(folder, 'openapi.json');
const response = await fetch(new URL('/openapi.json', service.url));
writeFileSync(document, await response.text());

/** A program of an npm package, in the folder of the document. */
async function npmProgram(name: string, version: string, program: string) {
  const tool = await npmTool(name, version);
  if ('missing' in tool) return { skip: tool.missing, run: async () => '' };
  const file = join(tool.folder, 'node_modules/.bin', program);
  const options = { cwd: folder, timeout: RUN_MS_MAX, maxBuffer: 1e8 };
  return {
    skip: false,
    run: async (args: readonly string[]) => (await run(file, args, options)).stdout,
  };
}

// All before the first test: tap ends where a test is waited for in between.
const spectral = await npmProgram('@stoplight/spectral-cli', '6.16.3', 'spectral');
const redocly = await npmProgram('@redocly/cli', '2.77.0', 'redocly');
const typescript = await npmProgram('openapi-typescript', '7.13.0', 'openapi-typescript');
const PYTHON = 'openapi-python-client';
const venv = await harnessVenv({ venv: `${PYTHON}-0.29.1`, packages: [`${PYTHON}==0.29.1`] });
const skip = 'missing' in venv ? venv.missing : false;

t.test('Spectral finds no error', { skip: spectral.skip }, async (t) => {
  writeFileSync(join(folder, 'rules.yaml'), 'extends: ["spectral:oas"]\n');
  await t.resolves(
    spectral.run(['lint', document, '--ruleset', 'rules.yaml', '--fail-severity=error']),
  );
});

t.test('Redocly finds no error', { skip: redocly.skip }, async (t) => {
  await t.resolves(redocly.run(['lint', document]));
});

t.test('openapi-typescript makes types that hold a chat', { skip: typescript.skip }, async (t) => {
  await typescript.run([document, '-o', 'api.d.ts']);
  const use = `
    import type { components } from './api.js';
    const request: components['schemas']['ChatRequest'] = {
      model: 'svc-v1-8k', messages: [{ role: 'user', content: 'Hello' }],
    };
    export const content = (answer: components['schemas']['ChatCompletion']) =>
      answer.choices[0]?.message.content ?? request.model;
    // @ts-expect-error: a chat has messages.
    export const wrong: components['schemas']['ChatRequest'] = { model: 'svc-v1-8k' };
  `;
  writeFileSync(join(folder, 'use.ts'), use);
  const tsc = join(
    dirname(createRequire(import.meta.url).resolve('typescript/package.json')),
    'bin/tsc',
  );
  const flags = [
    '--noEmit',
    '--ignoreConfig',
    '--strict',
    '--module',
    'nodenext',
    '--moduleResolution',
    'nodenext',
  ];
  await t.resolves(run(process.execPath, [tsc, ...flags, join(folder, 'use.ts')]));
});

t.test('openapi-python-client makes a client that works', { skip }, async (t) => {
  if (!('python' in venv)) return;
  const made = join(folder, 'generated');
  const args = ['generate', '--path', document, '--output-path', made, '--meta', 'none'];
  await run(venv.python, ['-m', 'openapi_python_client', ...args], { timeout: RUN_MS_MAX });
  const env = { ECHO_URL: service.url, API_KEY: service.key, CLIENT_FOLDER: folder };
  await runScenario(t, venv.python, [script], { env });
});
