/**
 * Holes that comparable servers had where one request could hold up or end the service: deep, long and odd texts in every
 * place that takes one. After each the service answers others, and its engine has not ended.
 */
import t, { type Test } from 'tap';
import { createCache } from '../support/cache-client.js';
import { answerTo, complete, post, refusal, said } from '../support/chat-client.js';
import { enginePids } from '../support/engine-pid.js';
import { upload } from '../support/file-client.js';
import { hasThreadFigures, processCpuMs } from '../support/main-thread.js';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey, openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

const service = await openService(t);
const port = Number(new URL(service.url).port);
t.setTimeout(0);

/** Far more than any of it takes; a blow-up takes minutes. Of CPU: a busy machine takes longer. */
const CPU_MS_MAX = 20_000;

/** What this process, which is service and client, works from now on. */
function cpuClock(): () => number {
  const began = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1_000;
  };
}

async function alive(t: Test, of: TestService, name: string): Promise<void> {
  t.equal((await complete(of, said('alive', { max_tokens: 5 }))).object, 'chat.completion', name);
  const figures = await (await fetch(new URL('/metrics', of.url))).text();
  t.notMatch(figures, /preface_worker_restarts_total\{[^}]*\} [1-9]/, `${name}: nothing ended`);
}

function nested(levels: number, open: string, inner: string, close: string): string {
  return open.repeat(levels) + inner + close.repeat(levels);
}

/** Schemas within other schemas, in a tool and in a response format. */
function schemaBodies(schema: string): string[] {
  const head = '{"model":"svc-v1-8k","max_tokens":1,"messages":[{"role":"user","content":"x"}]';
  const tool = `{"type":"function","function":{"name":"f","parameters":${schema}}}`;
  const format = `{"type":"json_schema","json_schema":{"name":"f","schema":${schema}}}`;
  return [
    `${head},"tools":[${tool}],"tool_choice":"required"}`,
    `${head},"response_format":${format}}`,
  ];
}

const LEVELS = 60_000;
const deep = [
  nested(LEVELS, '{"type":"object","properties":{"a":', '{"type":"string"}', '}}'),
  nested(LEVELS, '{"type":"array","items":', '{}', '}'),
  nested(LEVELS, '{"anyOf":[', '{}', ']}'),
  nested(LEVELS, '{"not":', '{}', '}'),
];

t.test('60 000 nested levels: refused at once, wherever they stand', async (t) => {
  const bodies = [
    ...deep.flatMap(schemaBodies),
    nested(LEVELS, '[', '', ']'),
    nested(LEVELS, '{"a":', '1', '}'),
    nested(LEVELS, '[', '', ''),
    `{"model":"svc-v1-8k","messages":${nested(LEVELS, '[', '', ']')}}`,
  ];
  const cpuMs = cpuClock();
  for (const body of bodies) {
    for (const path of ['/chat/completions', '/caching', '/tokenizers/estimate-token-count']) {
      const found = await refusal(t, await service.call('POST', path, body));
      t.equal(found.status, 400, `${path} ${body.slice(0, 60)}`);
    }
  }
  t.ok(cpuMs() < CPU_MS_MAX, `${cpuMs()} ms of CPU`);
  await alive(t, service, 'after deep bodies');
});

t.test('grammars that grow by themselves', { skip: skipWithoutWeights }, async (t) => {
  const env = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
  const real = await openService(t, env);
  const laughs = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [
      `d${i}`,
      { anyOf: Array(8).fill({ $ref: `#/$defs/d${i + 1}` }) },
    ]),
  );
  const wide = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, {}]));
  const schemas = [
    { $defs: { ...laughs, d30: { type: 'string' } }, $ref: '#/$defs/d0' },
    { $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
    { allOf: Array(60).fill({ anyOf: Array(60).fill({ type: 'object', properties: { a: {} } }) }) },
    { type: 'object', properties: wide },
    { type: 'string', minLength: 100_000, maxLength: 1_000_000 },
    { type: 'array', items: { type: 'array', minItems: 9_999 }, minItems: 9_999 },
    { type: 'string', pattern: '^((a+)+)+$' },
    { enum: Array.from({ length: 1_000 }, (_, i) => `value ${i}`) },
    { type: 'integer', minimum: -(10 ** 15), maximum: 10 ** 15 },
  ];
  await complete(real, said('x', { max_tokens: 1 }));
  const pids = hasThreadFigures ? enginePids() : [];
  const ownMs = cpuClock();
  const cpuMs = () => pids.reduce((sum, pid) => sum + processCpuMs(pid), ownMs());
  const beganMs = cpuMs();
  for (const schema of schemas) {
    // As a format: a tool's schema is in the prompt too, and a long prompt takes its time without any grammar.
    const [, body = ''] = schemaBodies(JSON.stringify(schema));
    const response = await real.call('POST', '/chat/completions', body);
    t.ok([200, 400].includes(response.status), `${response.status} ${body.slice(80, 220)}`);
    await response.text();
  }
  t.ok(cpuMs() - beganMs < 6 * CPU_MS_MAX, `${cpuMs() - beganMs} ms of CPU`);
  await alive(t, real, 'after grammars');
});

t.test('many choices of many tokens have their bound before anything runs', async (t) => {
  const wrong: Readonly<Record<string, unknown>>[] = [
    { n: 6, temperature: 1 },
    { n: 1e9, temperature: 1 },
    { n: 0 },
    { n: -1 },
    { n: 2.5, temperature: 1 },
    { max_tokens: 1e9 },
    { max_tokens: 2 ** 53 },
    { max_tokens: -1 },
    { max_tokens: 0.5 },
    { n: 5, temperature: 1, max_tokens: 1e6 },
    { n: 5, temperature: 1, max_completion_tokens: 8192 },
    { logprobs: true, top_logprobs: 1e6 },
    { stop: Array(1000).fill('x') },
    { stop: 'x'.repeat(10_000) },
  ];
  for (const fields of wrong) {
    const found = await refusal(t, await post(service, said('x', fields)));
    t.equal(found.status, 400, JSON.stringify(fields).slice(0, 60));
  }
  const all = await complete(service, said('/repeat x', { n: 5, temperature: 1, max_tokens: 100 }));
  t.equal(all.usage.completion_tokens, 500, 'what is generated is what was asked for');
});

t.test('fields by which others hand templates to their engine open nothing', async (t) => {
  const bomb = '{% for i in range(10**9) %}{{ cycler.__init__.__globals__.os }}{% endfor %}';
  const refused = {
    chat_template: bomb,
    chat_template_kwargs: { tokenize: true, chat_template: bomb },
    add_generation_prompt: false,
  };
  for (const [name, value] of Object.entries(refused)) {
    const found = await refusal(t, await post(service, said('plain', { [name]: value })));
    t.equal(found.status, 400, name);
    t.ok(found.param?.startsWith(name), `${found.param}`);
  }
  const fields = {
    documents: [{ text: bomb }],
    cache_salt: '12',
    priority: -1e9,
    n_discard: -1,
    lora: 'x',
    extra_body: { chat_template: bomb },
  };
  t.equal(await answerTo(service, said('plain', fields)), 'plain');
  t.equal(await answerTo(service, said(bomb)), bomb, 'a template in a message is text');
  const [with_, without] = await Promise.all([
    complete(service, said('x', fields)),
    complete(service, said('x')),
  ]);
  t.equal(with_.usage.prompt_tokens, without.usage.prompt_tokens);
});

t.test('texts on which careless expressions take for ever', async (t) => {
  const long = (text: string, times = 5_000) => text.repeat(times);
  const cpuMs = cpuClock();
  const headers: readonly (readonly [string, string])[] = [
    ['authorization', `Bearer ${long(' ', 8_000)}x`],
    ['authorization', long('bearer ', 1_500)],
    ['x-svc-context-cache', long('cache-', 1_500)],
    ['x-svc-context-cache-reset-ttl', long('1', 8_000)],
    ['x-request-id', long('a-', 4_000)],
    ['origin', long('http://', 1_000)],
  ];
  for (const [name, value] of headers) {
    const response = await service.call('POST', '/chat/completions', said('x'), { [name]: value });
    t.ok(response.status < 500, name);
    await response.text();
  }
  const texts = [
    long('a', 200_000),
    long(' ', 200_000),
    long('\n \t', 60_000),
    long('<|im_start|>', 5_000),
    long('{{', 50_000),
    long('tag=', 10_000),
    long('cache_id=;', 10_000),
    `data:image/png;${long('a=b;', 20_000)}base64,`,
    `data:image/png;base64,${long('A', 100_000)}!`,
    long('((((', 20_000),
    long('<tool_call>', 8_000),
  ];
  for (const text of texts) {
    const bodies: readonly (readonly [string, unknown])[] = [
      ['/chat/completions', { ...said(text), max_tokens: 1 }],
      ['/chat/completions', { model: 'svc-v1-8k', messages: [{ role: 'cache', content: text }] }],
      ['/chat/completions', { ...said('x'), stop: text }],
      ['/chat/completions', said([{ type: 'image_url', image_url: { url: text } }])],
      ['/caching', { model: text, messages: [], name: text, metadata: { [text]: text } }],
      ['/caching/refs/tags', { tag: text, cache_id: text }],
    ];
    for (const [path, body] of bodies) {
      const response = await service.call('POST', path, body);
      t.ok(response.status < 500, `${path} ${text.slice(0, 20)}`);
      await response.text();
    }
  }
  t.ok(cpuMs() < 3 * CPU_MS_MAX, `${cpuMs()} ms of CPU`);
  await alive(t, service, 'after long texts');
});

t.test('bytes that are no UTF-8, and halves of characters', async (t) => {
  const head = '{"model":"svc-v1-8k","messages":[{"role":"user","content":"';
  const bad = [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]];
  for (const bytes of bad) {
    const body = Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from('"}]}')]);
    const response = await fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${aliceKey}` },
      body,
    });
    t.equal((await refusal(t, response)).status, 400, `${bytes}`);
  }
  const half = await service.call('POST', '/chat/completions', `${head}\\ud83d"}]}`);
  t.equal((await refusal(t, half)).status, 400);
  const bom = Buffer.concat([
    Buffer.from([0xef, 0xbb, 0xbf]),
    Buffer.from(JSON.stringify(said('x'))),
  ]);
  const response = await fetch(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${aliceKey}` },
    body: bom,
  });
  t.ok([200, 400].includes(response.status));
  await response.text();
});

t.test('a salt of any text is a salt, any other is refused, and no engine ends', async (t) => {
  const salts = [
    '',
    'a',
    'x'.repeat(128),
    '\u0000\u001f',
    '漢😀',
    '../../x',
    '%s%n',
    "'; --",
    '__proto__',
  ];
  for (const cache_salt of salts) {
    const { status } = await post(service, said('salted', { cache_salt, max_tokens: 1 }));
    t.ok([200, 400].includes(status), `${status} for ${JSON.stringify(cache_salt)}`);
  }
  for (const cache_salt of ['x'.repeat(129), 7, true, {}, ['a'], [[['a']]]]) {
    const found = await refusal(t, await post(service, said('salted', { cache_salt })));
    t.equal(found.status, 400, JSON.stringify(cache_salt).slice(0, 20));
  }
  const broken = JSON.stringify(said('x', { cache_salt: '?' })).replace('"?"', '"\\ud800"');
  t.equal((await service.call('POST', '/chat/completions', broken)).status, 400);
  await alive(t, service, 'after odd salts');
});

t.test('names of prototypes are names', async (t) => {
  const evil =
    '{"__proto__":{"polluted":"yes","n":9},"constructor":{"prototype":{"polluted":"yes"}}';
  const chat = `${evil},"model":"svc-v1-8k","messages":[{"role":"user","content":"x","__proto__":{"polluted":"yes"}}]}`;
  t.equal((await service.call('POST', '/chat/completions', chat)).status, 200);
  const metadata = JSON.parse('{"__proto__":"a","constructor":"b","toString":"c"}') as object;
  const cache = await createCache(service, {
    messages: [{ role: 'user', content: 'x' }],
    metadata,
  });
  for (const key of ['__proto__', 'constructor', 'toString']) {
    t.ok(Object.hasOwn(cache.metadata, key), key);
  }
  const query = 'metadata[__proto__]=a&metadata[constructor]=b';
  const found = await service.call('GET', `/caching?${query}`);
  t.equal(((await found.json()) as { data: unknown[] }).data.length, 1);
  const none = await service.call('GET', '/caching?metadata[hasOwnProperty]=b');
  t.equal(((await none.json()) as { data: unknown[] }).data.length, 0);
  await upload(service, 'text', '__proto__');
  t.equal(({} as Record<string, unknown>).polluted, undefined);
  t.equal(await answerTo(service, said('clean')), 'clean');
});

t.test('a header of a megabyte is refused, and the memory for it is never taken', async (t) => {
  const before = process.memoryUsage.rss();
  const clients = Array.from({ length: 50 }, () => new RawClient(port));
  const bytes = request('GET /v1/models', [`X-A: ${'x'.repeat(2 ** 20)}`]);
  await Promise.all(
    clients.map(async (client) => {
      client.send(bytes);
      await client.untilClosed();
      t.notMatch(client.text, /^HTTP\/1\.1 2/);
      client.destroy();
    }),
  );
  t.ok(process.memoryUsage.rss() - before < 400 * 2 ** 20);
  await alive(t, service, 'after huge headers');
});
