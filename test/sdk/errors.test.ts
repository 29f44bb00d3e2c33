/**
 * Each row of the contract's table of errors through both official SDKs, oldest and newest: class, status, type and text.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { errorTable } from '../../src/errors.js';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { errorCases, grants, keyOf } from './errors.js';
import { pythonVenv, pythonVersions } from './python-venv.js';
import { runScenario } from './services.js';

const adminKey = 'the-key-of-the-operator';
const nodeCases = fileURLToPath(new URL('./errors-node.js', import.meta.url));
const pythonCases = fileURLToPath(new URL('../../../test/sdk/errors.py', import.meta.url));
const probe = fileURLToPath(new URL('../support/engine-probe.js', import.meta.url));

t.setTimeout(300_000);

/** The contract has 22 rows; what is ours beside them is told by other tests. */
const ours = [
  'fileTotal',
  'fileInUse',
  'modelAtWork',
  'notFound',
  'methodNotAllowed',
  'bodyTooLarge',
  'server',
  'unavailable',
];

async function start(t: Test): Promise<string> {
  const folder = temporaryFolder(t);
  const words = join(folder, 'words.txt');
  writeFileSync(words, 'forbidden word\n');
  const { url } = await startServiceProcess(
    t,
    {
      accounts: { users: grants },
      defaults: { engine: probe, tokenizer: 'bytes', weights: null },
      filters: `words=${words}`,
    },
    {
      PREFACE_ADMIN_KEY: adminKey,
      PREFACE_API_KEYS: Object.keys(grants)
        .map((user) => `${user}:${keyOf(user)}`)
        .join(),
    },
  );
  return url;
}

function post(url: string, key: string, body: unknown): Promise<Response> {
  const form = body instanceof FormData;
  return fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: form ? body : JSON.stringify(body),
  });
}

/** Brings the accounts to where their next request is refused. */
async function prepare(t: Test, url: string): Promise<string> {
  const admin = `${url.replace(/\/v1$/, '/admin/v1')}/users/broke`;
  t.equal((await post(admin, adminKey, { balance: 5 })).status, 200);
  const held = await post(`${url}/chat/completions`, keyOf('busy'), {
    model: 'svc-v1-8k',
    messages: [{ role: 'user', content: '/hang' }],
    stream: true,
  });
  t.equal(held.status, 200);
  t.teardown(() => held.body?.cancel());
  const form = new FormData();
  form.set('purpose', 'file-extract');
  form.set('file', new Blob(['no document at all']), 'a.pdf');
  const file = await post(`${url}/files`, keyOf('plain'), form);
  return ((await file.json()) as { id: string }).id;
}

/** What no placeholder can change. */
function longestPart(text: string): string {
  const parts = text.split(/\{[^}]+\}/).sort((one, other) => other.length - one.length);
  return (parts[0] ?? '').trim();
}

t.test('every refusal, through the SDKs', async (t) => {
  const url = await start(t);
  const cases = errorCases(url, adminKey, await prepare(t, url));
  const texts = Object.entries(errorTable).filter(([name]) => !ours.includes(name));
  for (const [name, { status, type, text }] of texts) {
    const met = cases.some(
      (each) =>
        each.status === status &&
        each.type === type &&
        each.message.replaceAll('\\', '').includes(longestPart(text)),
    );
    t.ok(met, `${name} is made to happen`);
  }
  t.ok(cases.length >= texts.length, `${cases.length} cases for ${texts.length} rows`);
  const file = join(temporaryFolder(t), 'cases.json');
  writeFileSync(file, JSON.stringify(cases));
  const services = { env: { CASES: file } };
  for (const name of ['openai4', 'openai']) {
    await t.test(`Node, ${name}`, (t) =>
      runScenario(t, process.execPath, [nodeCases, name], services),
    );
  }
  for (const [name, packages] of Object.entries(pythonVersions)) {
    const venv = await pythonVenv(name, packages);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(`Python, ${name}`, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [pythonCases], services);
    });
  }
});
