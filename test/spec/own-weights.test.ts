/**
 * Owns the proof that a person's own weights are served by one flag: under their names, beside one another, the rest named.
 * It must never judge an answer: the models are noise.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';

t.setTimeout(300_000);

interface Model {
  readonly id: string;
  readonly context_length: number;
  readonly exact: string | null;
  readonly kind: string;
}

t.test('own weights are served side by side, and what cannot be served is named', async (t) => {
  const folder = temporaryFolder(t);
  const file = (name: string) => join(folder, name);
  const facts = [TINY_TEMPLATE];
  await writeTinyModel(file('My model (1).gguf'), 'llama', { facts });
  await writeTinyModel(file('other.gguf'), 'lfm2', { facts, seed: 2 });
  const embedding = [TINY_TEMPLATE, ['llama.pooling_type', 1]] as const;
  await writeTinyModel(file('embedding.gguf'), 'llama', { facts: embedding });
  await writeTinyModel(file('eyes.gguf'), 'llama', { facts: [['general.type', 'mmproj']] });
  await writeTinyModel(file('base.gguf'), 'llama');
  writeFileSync(file('damaged.gguf'), 'GGUF is not what follows');
  const names = ['My model (1)', 'other', 'embedding', 'eyes', 'base', 'damaged', 'gone'];
  const service = await startServiceProcess(
    t,
    {},
    {
      PREFACE_WEIGHTS: names.map((name) => file(`${name}.gguf`)).join(','),
      PREFACE_MEMORY: '256MiB',
      PREFACE_THREADS: '1,1',
      PREFACE_LOG_LEVEL: 'info',
    },
  );
  const headers = { authorization: `Bearer ${service.key}` };
  const listed = await fetch(`${service.url}/models`, { headers });
  const { data } = (await listed.json()) as { data: Model[] };
  t.same(
    data.map(({ id }) => id),
    ['My-model-1-', 'other', 'svc-v1-8k', 'svc-v1-32k', 'svc-v1-auto', 'other-auto', 'embedding'],
    'the first also as the family',
  );
  const chats = data.filter(({ kind }) => kind === 'chat');
  t.equal(chats.length, data.length - 1);
  const window = data.find(({ id }) => id === 'other')?.context_length;
  t.equal(window, 8_192, 'the window that it was trained for');
  for (const model of [
    'My-model-1-',
    'other',
    'svc-v1-8k',
    'svc-v1-auto',
    'other',
    'My-model-1-',
  ]) {
    t.equal((await chat(service, model)).status, 200, model);
  }
  t.ok(chats.every(({ exact }) => exact === 'proved'));
  const deep = await (await fetch(new URL('/health?deep=1', service.url))).json();
  t.same(deep, { status: 'ok', engines: { answering: 1, all: 1 }, exact: 'proved' });
  const reasons = [
    ['eyes', 'it is the part of a model that looks at pictures'],
    ['base', 'its file has no chat template'],
    ['damaged', 'its header is not that of a GGUF'],
    ['gone', 'is missing'],
  ] as const;
  for (const [id, reason] of reasons) {
    t.match(service.log(), new RegExp(`the model ${id} is not offered: .*${reason}`), id);
  }
});

async function chat({ url, key }: ServiceProcess, model: string): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const messages = [{ role: 'user', content: 'abc' }];
  const body = JSON.stringify({ model, messages, max_tokens: 4 });
  const response = await fetch(`${url}/chat/completions`, { method: 'POST', headers, body });
  await response.arrayBuffer();
  return response;
}
