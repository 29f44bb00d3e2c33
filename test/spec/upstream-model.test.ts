/** What a context cache saves at an upstream with a real model: another preface, and llama.cpp's own server where it is. */
import t, { type Test } from 'tap';
import { llamaServerPath, startLlamaServer } from '../../bench/support/llama-server.js';
import type { WireCompletion } from '../../src/protocol/completion.js';
import {
  chunks,
  complete,
  type Fields,
  model,
  openWithSettings,
  said,
} from '../support/chat-client.js';
import { aliceKey, bobKey, openService, type TestService } from '../support/service.js';
import { shallowEnv, shallowWeights } from '../support/shallow-weights.js';
import { until } from '../support/until.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(600_000);

const weights = 'smollm2-135m-instruct-q4_1';
const prefix = [
  {
    role: 'system',
    content: Array.from(
      { length: 7 },
      (_, i) => `Rule ${i}: answer in the style of number ${i}.`,
    ).join(' '),
  },
];

function openFront(t: Test, upstream: Fields): Promise<TestService> {
  return openWithSettings(t, {
    models: { [model]: { engine: 'openai', weights, upstreams: [upstream] } },
  });
}

async function readyCache(service: TestService): Promise<Fields> {
  const body = { model: 'svc-v1', messages: prefix, ttl: 600 };
  const { id } = (await (await service.call('POST', '/caching', body)).json()) as Fields;
  const settled = async (): Promise<Fields | null> => {
    const cache = (await (await service.call('GET', `/caching/${id}`)).json()) as Fields;
    return cache.status === 'pending' ? null : cache;
  };
  return (await until(settled, 120_000)) as Fields;
}

const ask = (content: string, more: Fields = {}) => ({
  ...said('', more),
  messages: [...prefix, { role: 'user', content }],
});

/** The same on every upstream that reuses prefixes. */
async function cacheSaves(t: Test, front: TestService): Promise<void> {
  const cache = await readyCache(front);
  t.equal(cache.status, 'ready', JSON.stringify(cache.error ?? ''));
  const headers = { 'x-svc-context-cache': String(cache.id) };
  const body = ask('Say hello.', { max_tokens: 2 });
  const reply = await front.call('POST', '/chat/completions', body, headers);
  const { usage } = (await reply.json()) as WireCompletion;
  t.equal(reply.headers.get('svc-context-cache-status'), 'hit');
  const saved = Number(reply.headers.get('svc-context-cache-token-saved'));
  const tokens = Number(cache.tokens);
  t.ok(saved > tokens * 0.9 && saved <= tokens, `${saved} of ${tokens} were saved`);
  t.ok((usage.cached_tokens ?? 0) > tokens * 0.9, `usage says ${usage.cached_tokens}`);
  const stream = { ...body, stream: true };
  const streamed = await front.call('POST', '/chat/completions', stream, headers);
  t.equal(streamed.headers.get('svc-context-cache-status'), 'hit');
  t.match(await streamed.text(), '[DONE]');
}

/** What is counted here is what the upstream counts: there is one number. */
async function countsAgree(t: Test, front: TestService, texts: readonly string[] = []) {
  for (const content of ['Grüße, 你好 😀  \n\n and 12345', ...texts]) {
    const asked = said(content, { max_tokens: 1 });
    const estimate = await front.call('POST', '/tokenizers/estimate-token-count', asked);
    const { data } = (await estimate.json()) as { data: { total_tokens: number } };
    const { usage } = await complete(front, asked);
    t.equal(usage.prompt_tokens, data.total_tokens, content);
    t.equal(usage.completion_tokens, 1);
  }
  t.notOk(front.log.some((line) => line.includes('by its upstream')));
}

t.test('another preface', { skip: skipWithoutWeights }, async (t) => {
  const behind = await openService(t, { ...shallowEnv(), PREFACE_THREADS: '1,1' });
  const front = await openFront(t, { url: behind.url, apiKey: aliceKey });
  await countsAgree(t, front, ['<|im_start|> is text']);
  await cacheSaves(t, front);
  const asked = ask('Say hello.', { max_tokens: 1 });
  const bob = await front.call('POST', '/chat/completions', asked, {
    authorization: `Bearer ${bobKey}`,
  });
  const { usage } = (await bob.json()) as WireCompletion;
  t.equal(usage.cached_tokens, undefined, 'nothing of alice’s is reused for bob');
});

const path = llamaServerPath();
const skip = path === null ? 'llama-server is not on the PATH' : skipWithoutWeights;

t.test('llama-server', { skip }, async (t) => {
  const server = await startLlamaServer({
    path: path ?? '',
    weights: shallowWeights(),
    window: 8192,
    slots: 2,
  });
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${server.port}/v1`;
  const front = await openFront(t, { url, model: 'any' });
  await countsAgree(t, front);
  await cacheSaves(t, front);
  const asking = await openWithSettings(t, {
    models: { [model]: { engine: 'openai', upstreams: [{ url, model: 'any' }] } },
  });
  await countsAgree(t, asking);
  const one = await complete(front, said('Count to ten.', { max_tokens: 12 }));
  t.equal(one.choices[0]?.finish_reason, 'length');
  t.equal(one.usage.completion_tokens, 12);
  const stream = await chunks(front, said('Count to ten.', { max_tokens: 12 }));
  const text = stream.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
  t.equal(text, one.choices[0]?.message.content);
  const several = await complete(
    front,
    said('Say a word.', { n: 2, temperature: 1, max_tokens: 5 }),
  );
  t.equal(several.choices.length, 2);
  const json = await complete(
    front,
    said('Give me a colour.', {
      max_tokens: 160,
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'colour',
          schema: {
            type: 'object',
            properties: { c: { enum: ['red', 'blue'] } },
            required: ['c'],
            additionalProperties: false,
          },
        },
      },
    }),
  );
  t.match(JSON.parse(json.choices[0]?.message.content ?? ''), { c: /red|blue/ });
  const messages = [
    { role: 'user', content: 'Count from one to ten.' },
    { role: 'assistant', content: 'one, two, three,', partial: true },
  ];
  const more = await complete(front, { model, messages, max_tokens: 6 });
  t.notMatch(more.choices[0]?.message.content, 'one, two, three,');
});
