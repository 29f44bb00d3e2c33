/**
 * Images in chats: a model that sees gets their very bytes, one that does not says who would, and caches tell them apart.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { readyCache } from '../support/cache-client.js';
import { complete, type Fields, openWithSettings, post, refusal } from '../support/chat-client.js';
import { answers, FakeUpstream } from '../support/fake-upstream.js';
import { messageOf, send } from '../support/messages-client.js';
import type { TestService } from '../support/service.js';
import { until } from '../support/until.js';

const folder = fileURLToPath(new URL('../../../test/documents/pictures/', import.meta.url));
const picture = (name: string) => readFileSync(folder + name);
const urlOf = (bytes: Buffer, type = 'png') =>
  `data:image/${type};base64,${bytes.toString('base64')}`;
const png = picture('simple.png');
const part = (url: string): Fields => ({ type: 'image_url', image_url: { url } });
const text = (said: string): Fields => ({ type: 'text', text: said });
const asks = (model: string, ...content: Fields[]): Fields => ({
  model,
  messages: [{ role: 'user', content }],
});
const UNTIL_MS = 20_000;
const echo = { engine: 'echo', tokenizer: 'bytes', window: 8192 };

let service: TestService;
t.before(async () => {
  service = await openWithSettings(t, {
    models: { seer: { ...echo, vision: true }, blind: echo },
  });
});

async function listed(from: TestService, id: string): Promise<unknown> {
  const model = (await (await from.call('GET', `/models/${id}`)).json()) as Fields;
  return model.supports_image_in;
}

t.test('the list says which model sees', async (t) => {
  t.equal(await listed(service, 'seer'), true);
  t.equal(await listed(service, 'blind'), false);
});

t.test('an image counts as the estimate counts it, whatever its format', async (t) => {
  for (const [name, type] of [
    ['simple.png', 'png'],
    ['simple.jpg', 'jpeg'],
    ['simple.gif', 'gif'],
    ['simple.webp', 'webp'],
    ['simple.bmp', 'bmp'],
  ] as const) {
    const body = asks('seer', text('What is it?'), part(urlOf(picture(name), type)));
    const made = await complete(service, body);
    t.equal(made.choices[0]?.message.content?.trim(), 'What is it?', name);
    const estimated = await service.call('POST', '/tokenizers/estimate-token-count', body);
    const { data } = (await estimated.json()) as { data: { total_tokens: number } };
    t.equal(made.usage.prompt_tokens, data.total_tokens, name);
    const plain = await complete(service, asks('seer', text('What is it?')));
    t.ok(made.usage.prompt_tokens > plain.usage.prompt_tokens, name);
  }
});

t.test('a blind model is named, with who would see', async (t) => {
  const found = await refusal(t, await post(service, asks('blind', text('x'), part(urlOf(png)))));
  t.match(found, { status: 400, param: 'messages[0].content[1]' });
  t.match(
    found.message,
    /messages\[0\]\.content\[1\] is an image, and the model 'blind' takes text only; images are for 'seer'/,
  );
});

t.test(
  'an image that is none, cut, of a wrong size or from elsewhere is a 400 at its place',
  async (t) => {
    const place = 'messages[0].content[0].image_url.url';
    const huge = Buffer.from(png);
    huge.writeUInt32BE(70_000, 16);
    const cases: readonly (readonly [string, RegExp])[] = [
      [
        urlOf(Buffer.from('hello, this is no image at all')),
        /must hold a png, jpeg, webp, gif or bmp/,
      ],
      [
        urlOf(png.subarray(0, png.length >> 1)),
        /must hold a whole image; its \d+ bytes end before/,
      ],
      [urlOf(picture('simple.jpg').subarray(0, 2_000), 'jpeg'), /must hold a whole image/],
      [urlOf(picture('simple.webp').subarray(0, 2_000), 'webp'), /must hold a whole image/],
      [urlOf(huge), /must be 1 to 65535 pixels wide and high, got 70000/],
      [`${urlOf(png)}<script>`, /must hold base64 after its comma/],
      ['https://example.com/a.png', /must be a data URL of an image in base64/],
    ];
    for (const [url, message] of cases) {
      const found = await refusal(t, await post(service, asks('seer', part(url))));
      t.match(found, { status: 400, param: place }, String(message));
      t.match(found.message, message);
    }
  },
);

t.test(
  'Messages: an image block is the same image, and is named as the client wrote it',
  async (t) => {
    const block = (data: string, type = 'image/png'): Fields => ({
      type: 'image',
      source: { type: 'base64', media_type: type, data },
    });
    const asked = (model: string, data: string) => ({
      model,
      messages: [{ role: 'user', content: [block(data), text('What is it?')] }],
    });
    const made = await messageOf(service, asked('seer', png.toString('base64')));
    t.equal(made.content[0]?.text?.trim(), 'What is it?');
    const chat = await complete(service, asks('seer', part(urlOf(png)), text('What is it?')));
    t.equal(made.usage.input_tokens, chat.usage.prompt_tokens);
    const told = async (response: Response) =>
      ((await response.json()) as { error: { message: string } }).error.message;
    const cut = await send(service, asked('seer', png.toString('base64', 0, 60)));
    t.equal(cut.status, 400);
    t.match(await told(cut), /messages\[0\]\.content\[0\]\.source\.data must hold a whole image/);
    const blind = await send(service, asked('blind', png.toString('base64')));
    t.match(
      await told(blind),
      /messages\[0\]\.content\[0\]\.source\.data is an image, and the model 'blind'/,
    );
  },
);

t.test('an image is what a cache holds: other bytes of the same size miss', async (t) => {
  const other = Buffer.from(png);
  const at = other.indexOf('IDAT') + 12;
  other[at] = (other[at] ?? 0) ^ 1;
  const prefix = [{ role: 'user', content: [text('Look:'), part(urlOf(png))] }];
  const cache = await readyCache(service, { model: 'seer', messages: prefix });
  const ask = async (bytes: Buffer) => {
    const messages = [
      { role: 'user', content: [text('Look:'), part(urlOf(bytes))] },
      { role: 'assistant', content: 'I do.' },
      { role: 'user', content: 'What is it?' },
    ];
    const headers = { 'x-svc-context-cache': cache.id };
    const response = await service.call(
      'POST',
      '/chat/completions',
      { model: 'seer', messages },
      headers,
    );
    t.equal(response.status, 200);
    await response.text();
    return response.headers;
  };
  const hit = await ask(png);
  t.equal(hit.get('svc-context-cache-status'), 'hit');
  const miss = await ask(other);
  t.equal(miss.get('svc-context-cache-status'), 'miss');
  t.match(
    miss.get('svc-context-cache-miss-reason'),
    /messages\[0\]\.content\[1\]\.image_url\.url differs/,
  );
});

t.test('an upstream gets the very bytes, in every form of a chat', async (t) => {
  const fake = await FakeUpstream.open(t);
  fake.acts = [answers('a crane')];
  const upstreams = [{ url: fake.url, apiKey: null, model: 'm' }];
  const front = await openWithSettings(t, {
    models: { seer: { ...echo, engine: 'openai', upstreams, vision: true } },
  });
  const content = [text('What is it?'), part(urlOf(png)), text('And now?')];
  t.equal((await complete(front, asks('seer', ...content))).choices[0]?.message.content, 'a crane');
  t.same(fake.chats.at(-1)?.body.messages, [{ role: 'user', content }]);
  const source = { type: 'base64', media_type: 'image/png', data: png.toString('base64') };
  await messageOf(front, {
    model: 'seer',
    messages: [{ role: 'user', content: [text('What is it?'), { type: 'image', source }] }],
  });
  t.same(fake.chats.at(-1)?.body.messages, [{ role: 'user', content: content.slice(0, 2) }]);
  const result = [text('done'), { type: 'image', source }];
  await messageOf(front, {
    model: 'seer',
    tools: [{ name: 'look', input_schema: { type: 'object' } }],
    messages: [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'look', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: result }] },
    ],
  });
  const sent = fake.chats.at(-1)?.body.messages;
  t.match(Array.isArray(sent) ? sent.slice(2) : sent, [
    { role: 'tool', content: 'done', tool_call_id: 'a' },
    { role: 'user', content: [part(urlOf(png))] },
  ]);
  const image = { type: 'input_image', image_url: urlOf(png) };
  const input = [{ role: 'user', content: [{ type: 'input_text', text: 'What is it?' }, image] }];
  const response = await front.call('POST', '/responses', { model: 'seer', input });
  t.equal(response.status, 200, await response.text());
  t.same(fake.chats.at(-1)?.body.messages, [{ role: 'user', content: content.slice(0, 2) }]);
  const called = { type: 'function_call', call_id: 'a', name: 'look', arguments: '{}' };
  const output = [{ type: 'input_text', text: 'done' }, image];
  const items = [called, { type: 'function_call_output', call_id: 'a', output }];
  const kept = await front.call('POST', '/responses', { model: 'seer', input: items });
  t.match(fake.chats.at(-1)?.body.messages, [
    { role: 'assistant' },
    { role: 'tool', content: 'done', tool_call_id: 'a' },
    { role: 'user', content: [part(urlOf(png))] },
  ]);
  const { id } = (await kept.json()) as { id: string };
  const list = await front.call('GET', `/responses/${id}/input_items`);
  t.match(await list.json(), { data: [{ output: [output[0], { ...image, detail: 'auto' }] }, {}] });
});

t.test('a body above what the main thread parses keeps its bytes, too', async (t) => {
  const fake = await FakeUpstream.open(t);
  fake.acts = [answers('large')];
  const upstreams = [{ url: fake.url, apiKey: null, model: 'm' }];
  const front = await openWithSettings(t, {
    models: { seer: { ...echo, engine: 'openai', upstreams, vision: true } },
  });
  // The bytes behind the end of an image are the client's affair.
  const large = Buffer.concat([png.subarray(0, 33), Buffer.alloc(3_000_000, 7), png.subarray(33)]);
  const content = [part(urlOf(large))];
  t.ok(JSON.stringify(content).length > limits.bodyNearBytesMax);
  await complete(front, asks('seer', ...content));
  t.same(fake.chats.at(-1)?.body.messages, [{ role: 'user', content }]);
});

t.test('an upstream tells itself that its model sees', async (t) => {
  const fake = await FakeUpstream.open(t);
  const open = () =>
    openWithSettings(t, {
      models: {
        seer: {
          ...echo,
          engine: 'openai',
          upstreams: [{ url: fake.url, apiKey: null, model: 'm' }],
          timeouts: { healthMs: 50 },
        },
      },
    });
  const front = await open();
  await until(() => fake.looks > 2, UNTIL_MS, 'several looks at the upstream');
  t.equal(await listed(front, 'seer'), false);
  fake.listed = { supports_image_in: true };
  await until(
    async () => (await listed(front, 'seer')) === true,
    UNTIL_MS,
    'it is told by the list',
  );
  t.equal((await post(front, asks('seer', part(urlOf(png))))).status, 200);
  fake.listed = {};
  await until(async () => (await listed(front, 'seer')) === false, UNTIL_MS, 'it is told no more');
  fake.ownedBy = 'llamacpp';
  fake.props = { modalities: { vision: true } };
  await until(async () => (await listed(front, 'seer')) === true, UNTIL_MS, 'it is told by /props');
});
