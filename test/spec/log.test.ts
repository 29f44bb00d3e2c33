/**
 * The log of a whole service: a line of JSON for each request, and in none a key or a word of what was said.
 */
import t from 'tap';
import { said } from '../support/chat-client.js';
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
  const times = { queueMs: Number, tokenizeMs: Number, prefillMs: Number, generateMs: Number };
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
