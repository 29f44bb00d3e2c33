/**
 * The guide of Open WebUI: the program, unmodified, with the variables of its guide; it names the person of each chat.
 * It brings 1.2 GB without the models that it runs itself: it runs where it is installed, or with `TEST_HARNESSES=1`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../../bench/support/free-port.js';
import { pythonVenv, type Venv, venvIsReady } from '../../sdk/python-venv.js';
import { temporaryFolder } from '../../support/service.js';
import { startServiceProcess } from '../../support/service-process.js';
import { until } from '../../support/until.js';
import { blockOf, environmentOf, filled } from './guide.js';

const VERSION = '0.12.4';
const START_MS_MAX = 180_000;
const INSTALL_MS_MAX = 5 * 60_000;
const HEADER = 'x-openwebui-user-id';

t.setTimeout(600_000);

/** What it needs for models of its own, which would bring gigabytes. */
const LEFT_OUT = [
  ...['torch', 'torchvision', 'sentence-transformers', 'faster-whisper', 'ctranslate2'],
  ...['onnxruntime', 'rapidocr-onnxruntime', 'playwright'],
];

async function install(): Promise<Venv> {
  const name = `open-webui-${VERSION}`;
  if (process.env.TEST_HARNESSES !== '1' && !venvIsReady(name))
    return { missing: 'TEST_HARNESSES=1 installs open-webui' };
  const overrides = LEFT_OUT.map((each) => `${each} ; python_version < '3'`);
  const options = { installMsMax: INSTALL_MS_MAX, overrides };
  return await pythonVenv(name, [`open-webui==${VERSION}`], options);
}

/** Passes requests on as they come. @returns its address and, later, the person that each chat names. */
async function recorder(t: Test, target: string) {
  const people: (string | undefined)[] = [];
  const server = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming;
    if (method === 'POST') people.push(String(headers[HEADER]));
    const passed = request(new URL(url, target), { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    passed.once('error', () => outgoing.destroy());
    incoming.pipe(passed);
  });
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, people };
}

/** As the guide starts it, on another port; what would reach the network stays off. */
async function startWebUi(t: Test, python: string, block: string): Promise<string> {
  const port = await freePort();
  const code = block.replace(/^open-webui serve .*$/m, `exec open-webui serve --port ${port}`);
  const home = temporaryFolder(t);
  const quiet = { OFFLINE_MODE: 'True', HF_HUB_OFFLINE: '1', ANONYMIZED_TELEMETRY: 'false' };
  const env = environmentOf(
    { home, programs: [dirname(python)] },
    {
      ...quiet,
      DATA_DIR: home,
      WEBUI_SECRET_KEY: 'of-this-test',
      RAG_EMBEDDING_ENGINE: 'openai',
      // Everybody may use every model: who may is not what is tried here.
      BYPASS_MODEL_ACCESS_CONTROL: 'True',
    },
  );
  const local = code.replace('--port', '--host 127.0.0.1 --port');
  const child = spawn('sh', ['-ec', local], { cwd: home, env, stdio: 'ignore' });
  t.teardown(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
  });
  const origin = `http://127.0.0.1:${port}`;
  const isUp = () =>
    fetch(`${origin}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(isUp, START_MS_MAX, 'Open WebUI is up');
  return origin;
}

interface Person {
  readonly id: string;
  readonly token: string;
}

const made = await install();

t.test('people chat', { skip: 'missing' in made ? made.missing : false }, async (t) => {
  if ('missing' in made) return;
  const service = await startServiceProcess(t, {});
  const { url, people } = await recorder(t, new URL(service.url).origin);
  const origin = await startWebUi(
    t,
    made.python,
    filled(blockOf('open-webui', 'sh', 1), { url, key: service.key }),
  );
  const call = async (path: string, body: object, token?: string) => {
    const headers = {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    const asked = { method: 'POST', headers, body: JSON.stringify(body) };
    const response = await fetch(origin + path, asked);
    t.equal(response.status, 200, path);
    return (await response.json()) as object;
  };
  const account = (name: string) => ({
    name,
    email: `${name}@example.com`,
    password: 'Pass-1234!',
  });
  // The first one is the administrator, and makes the other.
  const ada = (await call('/api/v1/auths/signup', account('ada'))) as Person;
  await call('/api/v1/auths/add', { ...account('ben'), role: 'user' }, ada.token);
  const ben = (await call('/api/v1/auths/signin', account('ben'))) as Person;
  for (const { token } of [ada, ben]) {
    const messages = [{ role: 'user', content: 'Say hello' }];
    const body = { model: 'svc-v1-8k', messages, stream: false };
    const said = await call('/api/chat/completions', body, token);
    t.match(said, { choices: [{ message: { content: 'Say hello' } }] });
  }
  t.same(people, [ada.id, ben.id], 'each chat names its person');
  t.match(blockOf('open-webui', 'sh', 0), new RegExp(`--user-header ${HEADER}\n`, 'i'));
});
