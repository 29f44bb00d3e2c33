/**
 * The log of a whole service: a line of JSON for each request, and in none a key or a word of what was said.
 */

import { fileURLToPath } from 'node:url';
import t from 'tap';
import { type Fields, said } from '../support/chat-client.js';
import { form, purpose } from '../support/file-client.js';
import { startServiceProcess } from '../support/service-process.js';

t.test('a request is a line, and what was said is in none', async (t) => {
  const service = await startServiceProcess(t, { engine: 'echo' });
  const ask = async (key: string, text: string, more = {}) => {
    const response = await fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(said(text, more)),
    });
    await response.text();
    return response;
  };
  const good = await ask(service.key, 'zanzibar secrets');
  await ask(service.key, 'zanzibar streams', { stream: true });
  await ask(service.key, '/fail zanzibar');
  await ask('wrong-key-quagga', 'zanzibar');
  await fetch(new URL('/zanzibar?key=quagga', service.url));
  process.kill(service.pid, 'SIGTERM');
  t.equal(await service.ended, 0);
  const lines = service
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ type }) => type === 'request');
  t.same(
    lines.map(({ status }) => status),
    [200, 200, 500, 401, 404],
  );
  const times = { queueUs: Number, tokenizeUs: Number, prefillUs: Number, generateUs: Number };
  t.match(lines[0], {
    requestId: good.headers.get('x-request-id'),
    route: 'POST /v1/chat/completions',
    account: 'alice',
    chat: {
      stream: false,
      promptTokens: Number,
      completionTokens: Number,
      cacheStatus: null,
      times,
    },
  });
  for (const word of [service.key, 'quagga', 'zanzibar'])
    t.notOk(service.log().includes(word), word);
});

/** In all that a client can write. */
const word = 'zanzibar';

t.test(
  'whatever a client sends and whatever breaks, its words and keys are in no line',
  async (t) => {
    const extractors = fileURLToPath(new URL('../support/extractor-hostile.js', import.meta.url));
    const metricsKey = `metrics-${word}-key`;
    const env = { PREFACE_EXTRACTORS: extractors, PREFACE_METRICS_KEY: metricsKey };
    const service = await startServiceProcess(t, { engine: 'echo' }, env);
    const statuses: number[] = [];
    const call = async (method: string, path: string, body?: unknown, headers: Fields = {}) => {
      const json =
        typeof body === 'string' || body instanceof FormData ? body : JSON.stringify(body);
      const response = await fetch(`${service.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${service.key}`, ...headers } as Record<string, string>,
        ...(body === undefined ? {} : { body: json }),
      });
      statuses.push(response.status);
      return await response.text();
    };
    const messages = [{ role: 'user', content: word }];
    const model = 'svc-v1-8k';
    const metadata = { [word]: word };
    const cache = {
      model: 'svc-v1',
      messages,
      name: word,
      description: word,
      metadata,
      tags: [word],
    };
    const { id } = JSON.parse(await call('POST', '/caching', cache)) as { id: string };
    const tools = [{ type: 'function', function: { name: word, parameters: { type: 'object' } } }];
    const chat = '/chat/completions';
    await call('POST', chat, { model, messages: [...messages, ...messages], tools });
    await call('POST', chat, { model, messages }, { 'x-svc-context-cache': id });
    await call('POST', chat, { model, messages }, { 'x-svc-context-cache': word });
    await call('POST', chat, { model, messages: [{ role: 'cache', content: `tag=${word}x` }] });
    await call('POST', chat, { model: word, messages });
    await call('POST', chat, { model, messages, temperature: word, [word]: word });
    await call('POST', chat, `{"${word}": ${word}`);
    await call('POST', chat, { model, messages: [{ role: 'user', content: `/fail ${word}` }] });
    await call('POST', '/tokenizers/estimate-token-count', { model, messages });
    await call('GET', `/${word}?key=${service.key}`);
    await call('GET', `/caching?metadata[${word}]=${word}`);
    await call('GET', '/models', undefined, { authorization: `Bearer ${word}` });
    await call('GET', '/models', undefined, { authorization: `Basic ${word}`, cookie: word });
    for (const act of ['secret', 'junk', 'abort', word]) {
      const file = form([purpose, ['file', `${act} ${word}`, `${word}.txt`]]);
      const uploaded = JSON.parse(await call('POST', '/files', file)) as { id: string };
      await call('GET', `/files/${uploaded.id}/content`);
    }
    await fetch(new URL('/metrics', service.url), {
      headers: { authorization: `Bearer ${metricsKey}` },
    });
    t.same(new Set(statuses), new Set([200, 400, 401, 404, 500]));
    process.kill(service.pid, 'SIGTERM');
    t.equal(await service.ended, 0);
    const log = service.log();
    const ofRequests = log.split('\n').filter((line) => line.includes('"type":"request"'));
    t.equal(ofRequests.length, statuses.length + 1, 'a line for each');
    t.match(log, /"type":"extraction","format":"text\/x-act","outcome":"failed"/);
    for (const secret of [word, service.key, '/srv/secret', '/etc/passwd']) {
      t.notOk(log.includes(secret), secret);
    }
  },
);
