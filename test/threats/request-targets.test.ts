/**
 * Holes that comparable servers had where a request names the server that is to answer it, or a picture of many frames:
 * keys sent to a stranger's address, memory filled by frames that nobody looks at.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import t, { type Test } from 'tap';
import {
  answerTo,
  complete,
  type Fields,
  model,
  openWithSettings,
  post,
  refusal,
  said,
} from '../support/chat-client.js';
import { answers, FakeUpstream } from '../support/fake-upstream.js';
import { listen } from '../support/listen.js';
import { openService, type TestService } from '../support/service.js';

/** Far more than any of it takes; decoding the frames would take minutes. Of CPU: a busy machine takes longer. */
const CPU_MS_MAX = 10_000;

/** An address that counts who comes. */
async function openTrap(t: Test) {
  const met: number[] = [];
  const server = createServer((socket) => {
    met.push(socket.remotePort ?? 0);
    socket.destroy();
  });
  const port = await listen(t, server);
  return { url: `http://127.0.0.1:${port}/v1`, met };
}

/** As other servers spell it, at once. */
function targets(url: string): Fields {
  const fields = {
    api_base: url,
    base_url: url,
    api_key: 'key-of-a-stranger',
    upstreams: [{ url, apiKey: 'key-of-a-stranger', model }],
  };
  return { ...fields, extra_body: fields, metadata: fields, litellm_params: fields };
}

t.test('a target in a request is ignored: nobody connects to it', async (t) => {
  const trap = await openTrap(t);
  const service = await openService(t);
  for (const [name, value] of Object.entries(targets(trap.url))) {
    t.equal(await answerTo(service, said(`plain ${name}`, { [name]: value })), `plain ${name}`);
  }
  const [with_, without] = await Promise.all([
    complete(service, said('x', targets(trap.url))),
    complete(service, said('x')),
  ]);
  t.same(with_.usage, without.usage);
  t.same(trap.met, []);
  await once(connect(Number(new URL(trap.url).port), '127.0.0.1').resume(), 'close');
  t.equal(trap.met.length, 1, 'a connection would be seen');
});

t.test('where the model is at an upstream, only that one is asked, with its own key', async (t) => {
  const trap = await openTrap(t);
  const fake = await FakeUpstream.open(t);
  fake.acts = [answers('from the upstream')];
  const upstreams = [{ url: fake.url, apiKey: 'key-of-upstream', model: 'm' }];
  const service = await openWithSettings(t, {
    models: { [model]: { engine: 'openai', tokenizer: 'bytes', upstreams } },
  });
  for (const [name, value] of [...Object.entries(targets(trap.url)), ['x', null] as const]) {
    const asked = said('x', { [name]: value, ...(name === 'x' ? targets(trap.url) : {}) });
    t.equal(await answerTo(service, asked), 'from the upstream', name);
  }
  t.same(
    new Set(fake.chats.map(({ headers }) => headers.authorization)),
    new Set(['Bearer key-of-upstream']),
  );
  t.notMatch(
    JSON.stringify(fake.chats.map(({ body }) => body)),
    /stranger|api_base|base_url|upstreams/,
  );
  t.same(trap.met, []);
});

/** Whole and well formed: a large screen, and on it frames of one pixel, each of which a decoder makes a screen of. */
function gif(frames: number, side = 2_000): string {
  const screen = Buffer.from('GIF89a\0\0\0\0\x80\0\0\0\0\0\xff\xff\xff', 'latin1');
  screen.writeUInt16LE(side, 6);
  screen.writeUInt16LE(side, 8);
  const control = [0x21, 0xf9, 4, 0, 1, 0, 0, 0];
  const place = [0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0];
  const frame = Buffer.from([...control, ...place, 2, 2, 0x44, 1, 0]);
  const bytes = Buffer.concat([screen, ...Array<Buffer>(frames).fill(frame), Buffer.from([0x3b])]);
  return `data:image/gif;base64,${bytes.toString('base64')}`;
}

const seen = (model: string, url: string) => ({
  ...said([
    { type: 'text', text: 'What is it?' },
    { type: 'image_url', image_url: { url } },
  ]),
  model,
});

async function tokensOf(service: TestService, url: string): Promise<number> {
  const body = seen('svc-v1-8k-vision-preview', url);
  const response = await service.call('POST', '/tokenizers/estimate-token-count', body);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return ((await response.json()) as { data: { total_tokens: number } }).data.total_tokens;
}

t.test(
  'a moving picture of 5 000 frames is one picture, and none of them is decoded',
  async (t) => {
    const service = await openService(t);
    const [still, moving] = [gif(1), gif(5_000)];
    const counted = await tokensOf(service, still);
    t.ok(counted > 1_000, 'by the pixels of its screen');
    const began = process.cpuUsage();
    const beforeBytes = process.memoryUsage.rss();
    t.equal(await tokensOf(service, moving), counted, 'as one of one frame');
    // No model that answers here sees, and one that only counts does not chat: refused before anybody looks into it.
    const chat = async (asked: string) =>
      refusal(t, await post(service, seen(asked, moving)), asked);
    t.match(await chat(model), { status: 400, param: 'messages[0].content[1]' });
    t.match(await chat('svc-v1-8k-vision-preview'), { status: 404, param: 'model' });
    const { user, system } = process.cpuUsage(began);
    t.ok(user + system < 1_000 * CPU_MS_MAX, `${(user + system) / 1_000} ms of CPU`);
    t.ok(process.memoryUsage.rss() - beforeBytes < 200 * 2 ** 20);
    t.equal(await answerTo(service, said('alive')), 'alive');
  },
);

t.test('a picture of one pixel, or of as many as it has colours, has one reading', async (t) => {
  const seeing = { engine: 'echo', tokenizer: 'bytes', window: 8192, vision: true };
  const service = await openWithSettings(t, { models: { [model]: seeing } });
  const tokens = async (side: number) =>
    (await complete(service, seen(model, gif(1, side)))).usage.prompt_tokens;
  const patch = await tokens(28);
  for (const side of [1, 3]) t.equal(await tokens(side), patch, `${side} × ${side}: one patch`);
  t.equal(await tokens(29), patch + 3, 'a side of one pixel more: four');
  const none = await refusal(t, await post(service, seen(model, gif(1, 0))));
  t.match(none, { status: 400, param: 'messages[0].content[1].image_url.url' });
  t.equal(await answerTo(service, said('alive')), 'alive');
});
