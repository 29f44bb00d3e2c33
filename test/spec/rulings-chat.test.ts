/**
 * Where the contract leaves room: the order of the checks, and what a chat means by its fields.
 */
import t from 'tap';
import {
  chunks,
  complete,
  type Fields,
  invalidType,
  model,
  openProbe,
  pieces,
  post,
  refusal,
  refused,
  said,
} from '../support/chat-client.js';
import { notes } from '../support/engine-probe.js';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey, bobKey, openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

const service = await openService(t);
const probe = await openProbe(t);
const port = (of: TestService) => Number(new URL(of.url).port);

// ------------------------------------------------------- order of the checks

t.test('the first check that fails answers: each fault hides the ones behind it', async (t) => {
  const narrow = await openProbe(t, { limits: { accountConcurrency: 1 } });
  const held = await post(narrow, said('/hang', { stream: true }));
  const wrongKey = { authorization: 'Bearer wrong' };
  const call = async (path: string, body: unknown, headers = {}, method = 'POST') =>
    refusal(t, await narrow.call(method, path, body, headers));
  const chat = '/chat/completions';
  t.match(await call('/nowhere', '{', wrongKey), { status: 404 }, 'route before key');
  t.match(await call(chat, undefined, wrongKey, 'GET'), { status: 405 }, 'method before key');
  const tooLarge = 'x'.repeat(9 * 2 ** 20);
  t.match(await call(chat, tooLarge, wrongKey), { status: 401 }, 'key before size');
  t.match(await call(chat, tooLarge), { status: 413 }, 'size before concurrency');
  t.match(await call(chat, '{'), { status: 429 }, 'concurrency before parse');
  await held.body?.cancel();
  await free(narrow);
  const bad = { ...said('x', { temperature: 2 }), model: 'none' };
  t.match(await call(chat, bad), { status: 400, param: 'temperature' }, 'validation before model');
  const long = said('x'.repeat(9_000));
  t.match(await call(chat, { ...long, model: 'none' }), { status: 404 }, 'model before length');
  t.match(await call(chat, long), { message: 'Input token length too long' });
});

/** Resolves once the account may run a chat again. */
async function free(of: TestService): Promise<void> {
  const answers = async () => {
    const response = await post(of, said('x'));
    await response.text();
    return response.status === 200;
  };
  await until(answers, 60_000, 'the account is free again');
}

t.test('an account’s limit is its own', async (t) => {
  const narrow = await openProbe(t, { limits: { accountConcurrency: 1 } });
  const held = await post(narrow, said('/hang', { stream: true }));
  const asBob = { authorization: `Bearer ${bobKey}` };
  t.equal((await narrow.call('POST', '/chat/completions', said('x'), asBob)).status, 200);
  t.equal((await post(narrow, said('x'))).status, 429);
  await held.body?.cancel();
});

// --------------------------------------------------------------------- chat

t.test('only an explicit max_tokens can fail, and the prompt alone has its own text', async (t) => {
  const nearlyFull = 'x'.repeat(8192 - 19 - 1);
  const answer = await complete(service, said(nearlyFull));
  t.match(answer.usage, { prompt_tokens: 8191, completion_tokens: 1 });
  const limit = 'Your request exceeded model token limit : 8192';
  await refused(t, service, said(nearlyFull, { max_tokens: 2 }), limit);
  await refused(t, service, said(`${nearlyFull}x`), 'Input token length too long');
});

t.test('very close to 0 is below 0.01, the default included', async (t) => {
  for (const more of [{}, { temperature: 0 }, { temperature: 0.00999 }, { temperature: null }]) {
    const found = await refusal(t, await post(service, said('x', { n: 2, ...more })));
    t.match(found, { status: 400, type: invalidType, param: 'n' });
  }
  t.equal((await complete(service, said('x', { n: 2, temperature: 0.01 }))).choices.length, 2);
});

t.test('an image in a chat is 400 unless the model sees', async (t) => {
  const image_url = { url: `data:image/png;base64,${Buffer.alloc(64).toString('base64')}` };
  const parts = [
    { type: 'text', text: 'What is it?' },
    { type: 'image_url', image_url },
  ];
  const found = await refusal(t, await post(service, said(parts)));
  t.match(found, { status: 400, type: invalidType, param: 'messages[0].content[1]' });
});

t.test('stop counts UTF-8 bytes', async (t) => {
  t.equal((await post(service, said('x', { stop: 'é'.repeat(16) }))).status, 200);
  t.equal((await post(service, said('x', { stop: 'é'.repeat(17) }))).status, 400);
});

t.test('the names of an object’s own machinery are ordinary keys', async (t) => {
  const body = `{"__proto__":{"n":9},"hasOwnProperty":1,"toString":null,${JSON.stringify(said('x')).slice(1)}`;
  t.equal((await service.call('POST', '/chat/completions', body)).status, 200);
  const properties = JSON.parse('{"__proto__":{"type":"string"},"constructor":{}}') as Fields;
  const tools = [
    {
      type: 'function',
      function: { name: '__proto__', parameters: { type: 'object', properties } },
    },
  ];
  const text = '<tool_call>{"name":"__proto__","arguments":{"__proto__":"a"}}';
  const answer = await complete(service, { ...said(text, { tools }), model: 'svc-v1-32k' });
  t.match(answer.choices[0]?.message.tool_calls, [
    { function: { name: '__proto__', arguments: '{"__proto__":"a"}' } },
  ]);
});

// ------------------------------------------------------ clients that misbehave

t.test('a client that leaves stops its generation, streamed or not', async (t) => {
  for (const stream of [true, false]) {
    const text = `/endless leaver ${stream} `;
    const client = new RawClient(port(probe));
    const body = JSON.stringify(said(text, { stream, model: 'svc-v1-128k', max_tokens: 120_000 }));
    const headers = [
      `Authorization: Bearer ${aliceKey}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    client.send(request('POST /v1/chat/completions', headers, body));
    const mine = () => notes(probe.dataDir).filter((note) => note.text === text);
    t.ok(await until(() => mine().some(({ event }) => event === 'pieces')), 'it runs');
    client.destroy();
    t.ok(await until(() => mine().some(({ event }) => event === 'end')), 'it ends');
    const end = mine().find(({ event }) => event === 'end');
    t.ok(end?.aborted, 'because it was told to');
    t.ok((end?.pieces ?? 0) < 120_000 / text.length / 2, `after ${end?.pieces} pieces`);
  }
  t.equal((await complete(probe, said('next'))).choices[0]?.message.content, 'next');
});

t.test('a slow reader pauses its own generation and nobody else’s', async (t) => {
  // A piece of one byte is a chunk of 170: far more than the sockets between can hold.
  const text = '/endless z';
  const slow = new RawClient(port(probe));
  const more = { stream: true, model: 'svc-v1-128k', max_tokens: 120_000 };
  const body = JSON.stringify(said(text, more));
  const headers = [`Authorization: Bearer ${aliceKey}`, `Content-Length: ${body.length}`];
  slow.socket.pause();
  slow.send(request('POST /v1/chat/completions', headers, body));
  const taken = () =>
    Math.max(0, ...notes(probe.dataDir).map((note) => (note.text === text ? note.pieces : 0)));
  t.ok(await until(() => taken() > 0), 'it runs');
  // Others run to their end meanwhile, so it has every chance to run on.
  let before = -1;
  for (let round = 0; round < 100 && before !== taken(); round += 1) {
    before = taken();
    const other = await chunks(probe, said('/endless other ', { max_tokens: 2_000 }));
    t.equal(pieces(other).join('').length, 2_000);
  }
  t.equal(taken(), before, 'it stands still');
  t.ok(before < 60_000, `paused after ${before} of 120000 pieces`);
  slow.keepText = false;
  slow.socket.resume();
  t.ok(await until(() => taken() > before), 'and goes on when it is read');
  slow.destroy();
});

t.test('a silent stream is kept alive by empty deltas, which change nothing', async (t) => {
  const quick = await openProbe(t, { limits: { keepAliveMs: 100 } });
  const response = await post(quick, said('/hang', { stream: true }));
  const reader = response.body?.getReader();
  let text = '';
  while (text.split('\n\n').length < 4) {
    const { value } = (await reader?.read()) ?? {};
    text += new TextDecoder().decode(value);
  }
  await reader?.cancel();
  const [first, ...quiet] = text.split('\n\n').slice(0, -1);
  t.match(first, /"delta":\{"role":"assistant","content":""\},"finish_reason":null\}\]\}$/);
  for (const event of quiet) {
    t.match(event, /^data: \{"id":"chatcmpl-/, 'no comment, no other event');
    t.match(event, /"choices":\[\{"index":0,"delta":\{\},"finish_reason":null\}\]\}$/);
  }
});

t.test('a request id of the client comes back, on errors too', async (t) => {
  const own = { 'x-request-id': 'my-own-id' };
  const answers = await Promise.all([
    service.call('POST', '/chat/completions', said('x'), own),
    service.call('POST', '/chat/completions', said('x', { stream: true }), own),
    service.call('POST', '/chat/completions', '{', own),
    service.call('GET', '/nowhere', undefined, own),
  ]);
  for (const answer of answers) {
    t.equal(answer.headers.get('x-request-id'), 'my-own-id');
    await answer.text();
  }
  t.equal((await complete(service, said('x'))).model, model);
});
