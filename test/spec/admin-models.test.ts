/**
 * Owns the proof of what an operator sees of models and does with their memory, on the echo engine and on real weights.
 * It must never judge an answer: the real models are noise.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { WireAdminModel, WireAdminModelList } from '../../src/protocol/admin-models.js';
import { post, refusal, said } from '../support/chat-client.js';
import { adminKey, askOperator, asOperator, operatorOf } from '../support/operator-client.js';
import { aliceKey, openService, temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';
import { until } from '../support/until.js';

t.setTimeout(240_000);

const MODELS = '/admin/v1/models';

type Place = Parameters<typeof askOperator>[0];
const ask = askOperator;

async function listed(place: Place): Promise<WireAdminModelList> {
  return (await operatorOf(place)).told(MODELS);
}

async function modelOf(place: Place, id: string): Promise<WireAdminModel> {
  const { data } = (await (await ask(place, 'GET', MODELS)).json()) as WireAdminModelList;
  const found = data.find((model) => model.id === id);
  if (found === undefined) throw new Error(`${id} is not listed`);
  return found;
}

t.test('models are listed with their state, and are unloaded and loaded', async (t) => {
  const service = await openService(t, asOperator);
  const { data, refused, downloads } = await listed(service);
  t.same([refused, downloads], [[], []]);
  t.match(data[0], { id: 'svc-v1-8k', kind: 'chat', engine: 'engine-echo', state: 'loaded' });
  const unloaded = await ask(service, 'POST', `${MODELS}/svc-v1-8k/unload`);
  t.match(await unloaded.json(), { object: 'model', id: 'svc-v1-8k', state: 'unloaded' });
  t.equal((await modelOf(service, 'svc-v1-8k')).state, 'unloaded');
  t.equal((await modelOf(service, 'svc-v1-32k')).state, 'loaded', 'others stay');
  const loaded = await ask(service, 'POST', `${MODELS}/svc-v1-8k/load`);
  t.match(await loaded.json(), { id: 'svc-v1-8k', state: 'loaded' });
  await ask(service, 'POST', `${MODELS}/svc-v1-8k/unload`);
  await (await post(service, said('x', { max_tokens: 2 }))).text();
  t.equal((await modelOf(service, 'svc-v1-8k')).state, 'loaded', 'a chat loads it, too');
});

t.test('the operator alone, and models that are there', async (t) => {
  const service = await openService(t, asOperator);
  for (const [method, path] of [
    ['GET', MODELS],
    ['POST', `${MODELS}/svc-v1-8k/load`],
    ['POST', `${MODELS}/svc-v1-8k/unload`],
  ] as const) {
    t.match(
      await refusal(t, await ask(service, method, path, undefined, aliceKey)),
      { status: 401 },
      path,
    );
  }
  const gone = await refusal(t, await ask(service, 'POST', `${MODELS}/nobody/load`));
  t.match(gone, { status: 404, message: 'Not found the model nobody' });
});

t.test('downloads of any process are shown with their size', async (t) => {
  const folder = temporaryFolder(t);
  const file = (name: string, content: string) => writeFileSync(join(folder, name), content);
  mkdirSync(folder, { recursive: true });
  file('one.gguf.part', 'x'.repeat(250));
  file('one.gguf.part.bytes', '1000');
  file('one.gguf.lock', '');
  file('two.gguf.part', 'x');
  const env = { PREFACE_ADMIN_KEY: adminKey, PREFACE_MODELS_DIR: folder };
  const service = await openService(t, env);
  t.same((await listed(service)).downloads, [
    { file: 'one.gguf', bytes: 250, running: true, total_bytes: 1000 },
    { file: 'two.gguf', bytes: 1, running: false, total_bytes: null },
  ]);
});

t.test('memory of real weights is given back and taken again', async (t) => {
  const folder = temporaryFolder(t);
  const paths = ['one', 'two'].map((name) => join(folder, `${name}.gguf`));
  for (const [seed, path] of paths.entries())
    await writeTinyModel(path, 'llama', { facts: [TINY_TEMPLATE], seed });
  const service = await startServiceProcess(
    t,
    {},
    { PREFACE_WEIGHTS: paths.join(','), PREFACE_MEMORY: '256MiB', PREFACE_ADMIN_KEY: adminKey },
  );
  const chat = (body: object) =>
    fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.key}` },
      body: JSON.stringify({ model: 'two', messages: [{ role: 'user', content: 'a' }], ...body }),
    });
  t.match(await modelOf(service, 'two'), { state: 'unloaded', memory_bytes: 0 });
  const loaded = await ask(service, 'POST', `${MODELS}/two/load`);
  const { state, memory_bytes: bytes } = (await loaded.json()) as WireAdminModel;
  t.equal(state, 'loaded');
  t.ok((bytes ?? 0) > 0, `${bytes} bytes`);
  const unload = () => ask(service, 'POST', `${MODELS}/two/unload`);
  const leaving = new AbortController();
  const headers = { authorization: `Bearer ${service.key}` };
  const endless = { model: 'two', messages: [{ role: 'user', content: 'a' }], stream: true };
  // Far more than a connection holds that nobody reads: however fast the model is, it cannot come to its end.
  const large = { n: 2, temperature: 1, logprobs: true, top_logprobs: 20 };
  const running = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers,
    signal: leaving.signal,
    body: JSON.stringify({ ...endless, ...large, max_tokens: 4_000, ignore_eos: true }),
  });
  t.equal(running.status, 200);
  const busy = await refusal(t, await unload());
  t.match(busy, {
    status: 409,
    message: 'Invalid request: the model two is at work; it can be unloaded when that has ended',
  });
  leaving.abort();
  await until(async () => (await unload()).status === 200);
  t.match(await modelOf(service, 'two'), { state: 'unloaded', memory_bytes: 0 });
  const answered = await chat({ max_tokens: 2 });
  t.equal(answered.status, 200, 'the next chat loads it');
  await answered.text();
  t.equal((await modelOf(service, 'two')).state, 'loaded');
});
