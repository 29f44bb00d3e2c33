/**
 * Bodies that are large by their images: held once, seen by an upstream as they came, and refused where nobody sees.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { readyCache } from '../support/cache-client.js';
import { complete, type Fields, openWithSettings, post, refusal } from '../support/chat-client.js';
import { answers, FakeUpstream } from '../support/fake-upstream.js';
import { messageOf } from '../support/messages-client.js';
import type { TestService } from '../support/service.js';

t.setTimeout(240_000);
const MIB = 2 ** 20;
const path = '../../../test/documents/pictures/simple.png';
const png = readFileSync(fileURLToPath(new URL(path, import.meta.url)));

/** A whole image of so many bytes: what stands before its end is no part of the picture. */
function pngOf(bytes: number, filled: number): Buffer {
  const end = png.subarray(-12);
  const more = Buffer.alloc(bytes - png.length, filled);
  return Buffer.concat([png.subarray(0, -12), more, end]);
}

const urlOf = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`;
const part = (url: string): Fields => ({ type: 'image_url', image_url: { url } });
const text = (said: string): Fields => ({ type: 'text', text: said });
const asks = (model: string, ...content: Fields[]): Fields => ({
  model,
  messages: [{ role: 'user', content }],
});
const echo = { engine: 'echo', tokenizer: 'bytes', window: 131072 };

let fake: FakeUpstream;
let front: TestService;
t.before(async () => {
  fake = await FakeUpstream.open(t);
  fake.acts = [answers('large')];
  const upstreams = [{ url: fake.url, apiKey: null, model: 'm' }];
  front = await openWithSettings(t, {
    models: {
      remote: { ...echo, engine: 'openai', upstreams, vision: true },
      seer: { ...echo, vision: true },
      blind: echo,
    },
  });
});

/** Long texts by their length and hash: a difference can be read. */
const brief = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (_, item: unknown) =>
    typeof item === 'string' && item.length > 1_000
      ? `${item.length} ${createHash('sha256').update(item).digest('hex')}`
      : item,
  );
const seen = () => brief(fake.chats.at(-1)?.body.messages) as readonly Fields[];

t.test('an upstream gets each image as it came, with what stands around it', async (t) => {
  const code = 'QUJD'.repeat(4_200);
  const content = [
    text('One "quoted" \\ and 漢字:'),
    part(urlOf(pngOf(11 * MIB, 1))),
    text(code),
    part(urlOf(pngOf(9 * MIB, 2))),
    part(urlOf(png)),
  ];
  const schema = { type: 'object', properties: { a: { type: 'string', default: code } } };
  const tools = [{ type: 'function', function: { name: 'f', parameters: schema } }];
  const body = { ...asks('remote', ...content), tools, metadata: { [code]: code } };
  const made = await complete(front, body);
  t.equal(made.choices[0]?.message.content, 'large');
  t.same(seen(), brief([{ role: 'user', content }]));
  t.match(brief(fake.chats.at(-1)?.body.tools), brief(tools));
  const stream = await post(front, { ...body, stream: true });
  t.match(await stream.text(), /large/);
  t.same(seen(), brief([{ role: 'user', content }]));
});

t.test('Messages and Responses', async (t) => {
  const large = pngOf(12 * MIB, 3);
  const source = { type: 'base64', media_type: 'image/png', data: large.toString('base64') };
  const block = { type: 'image', source };
  const system = [{ type: 'text', text: 'You see.', cache_control: { type: 'ephemeral' } }];
  const content = [{ ...text('What is it?'), cache_control: { type: 'ephemeral' } }, block];
  const more = [{ ...text('And now?'), cache_control: { type: 'ephemeral' } }];
  const messages = [{ role: 'user', content: [...content, ...more] }];
  const made = await messageOf(front, { model: 'remote', system, messages });
  t.equal(made.content[0]?.text, 'large');
  const asked = [text('What is it?'), part(urlOf(large)), text('And now?')];
  t.match(seen(), brief([{ role: 'system' }, { content: asked }]));
  const item = {
    role: 'user',
    content: [
      { type: 'input_text', text: 'What is it?' },
      { type: 'input_image', image_url: urlOf(large) },
    ],
  };
  const response = await front.call('POST', '/responses', { model: 'remote', input: [item] });
  t.match(
    await response.json(),
    { status: 'completed', store: false },
    'it is answered, and not kept',
  );
  const expected = { role: 'user', content: [text('What is it?'), part(urlOf(large))] };
  t.same(seen(), brief([expected]));
  const called = { type: 'function_call', call_id: 'a', name: 'look', arguments: '{}' };
  const result = { type: 'function_call_output', call_id: 'a', output: [item.content[1]] };
  const looked = { model: 'remote', input: [called, result] };
  t.match(await (await front.call('POST', '/responses', looked)).json(), { status: 'completed' });
  t.same(seen().at(-1), brief({ role: 'user', content: [part(urlOf(large))] }), 'of a tool, too');
  const first = await front.call('POST', '/responses', { model: 'remote', input: 'Hello' });
  const { id } = (await first.json()) as { id: string };
  const next = { model: 'remote', previous_response_id: id, input: [item] };
  t.match(await (await front.call('POST', '/responses', next)).json(), { status: 'completed' });
  t.same(seen().at(-1), brief(expected), 'behind a kept response, too');
  const behind = await front.call('POST', '/responses', { ...next, background: true });
  t.match(await refusal(t, behind), { status: 400, param: 'input' });
  const compact = { model: 'remote', input: [item] };
  const compaction = await front.call('POST', '/responses/compact', compact);
  t.match(await refusal(t, compaction), { status: 413 }, 'one gives back what it was given');
});

t.test('it counts as any image of its size, and a cache in front of it is a hit', async (t) => {
  const small = await complete(front, asks('seer', text('What?'), part(urlOf(png))));
  const large = asks('seer', text('What?'), part(urlOf(pngOf(9 * MIB, 4))));
  t.equal((await complete(front, large)).usage.prompt_tokens, small.usage.prompt_tokens);
  const prefix = [
    { role: 'system', content: 'You look at pictures. '.repeat(20) },
    { role: 'user', content: [text('Look:'), part(urlOf(png))] },
  ];
  const cache = await readyCache(front, { model: 'seer', messages: prefix });
  const ask = async (first: Buffer) => {
    const begun = [prefix[0], { role: 'user', content: [text('Look:'), part(urlOf(first))] }];
    const rest = [
      { role: 'assistant', content: 'I do.' },
      { role: 'user', content: [text('And this?'), part(urlOf(pngOf(9 * MIB, 5)))] },
    ];
    const headers = { 'x-svc-context-cache': cache.id };
    const body = { model: 'seer', messages: [...begun, ...rest] };
    const response = await front.call('POST', '/chat/completions', body, headers);
    t.equal(response.status, 200, await response.text());
    return response.headers;
  };
  t.equal((await ask(png)).get('svc-context-cache-status'), 'hit');
  const padded = pngOf(20_000, 6);
  const miss = await ask(padded);
  const at = urlOf(png)
    .split('')
    .findIndex((letter, place) => letter !== urlOf(padded)[place]);
  t.equal(
    miss.get('svc-context-cache-miss-reason'),
    `messages[1].content[1].image_url.url differs at character ${at}`,
    'as the client wrote it, also where it was cut out',
  );
  const named = { role: 'cache', content: `cache_id=${cache.id}` };
  const question = { role: 'user', content: [text('And this?'), part(urlOf(pngOf(9 * MIB, 7)))] };
  const substituted = await post(front, { model: 'seer', messages: [named, question] });
  t.equal(substituted.headers.get('svc-context-cache-status'), 'hit', await substituted.text());
});

t.test('the bound of other bodies stays', async (t) => {
  const large = part(urlOf(pngOf(9 * MIB, 8)));
  const tooLarge = {
    status: 413,
    message: `Invalid request: the body is larger than ${limits.bodyBytesMax} bytes`,
  };
  const refuses = async (name: string, body: unknown) =>
    t.match(await refusal(t, await post(front, body)), tooLarge, name);
  await refuses('a blind model', asks('blind', large));
  await refuses('no image', asks('seer', text('x '.repeat(4.5 * MIB))));
  await refuses('a text as of an image', asks('seer', text('QUJD'.repeat(2.25 * MIB))));
  const bare = part(pngOf(9 * MIB, 12).toString('base64'));
  await refuses('an image without the beginning of an address', asks('seer', bare));
  await refuses('too much beside', asks('seer', large, text('x '.repeat(1.1 * MIB))));
  const huge = asks('seer', part(urlOf(pngOf(25 * MIB, 9))));
  t.match(await refusal(t, await post(front, huge)), { status: 413, message: /33554432 bytes/ });
  const plain = await openWithSettings(t, { models: { blind: echo } });
  t.match(await refusal(t, await post(plain, asks('blind', large))), tooLarge, 'where none sees');
});

t.test('errors tell what the client sent', async (t) => {
  const cut = asks('seer', part(urlOf(pngOf(9 * MIB, 10)).slice(0, -200)));
  t.match(await refusal(t, await post(front, cut)), {
    status: 400,
    param: 'messages[0].content[0].image_url.url',
    message: /must hold a whole image; its \d+ bytes end before it does/,
  });
  const json = JSON.stringify(asks('seer', part(urlOf(pngOf(9 * MIB, 11)))));
  const broken = `${json.slice(0, -2)}x${json.slice(-2)}`;
  t.match(await refusal(t, await post(front, broken)), {
    status: 400,
    message: new RegExp(`unexpected 'x' at position ${json.length - 2}$`),
  });
});
