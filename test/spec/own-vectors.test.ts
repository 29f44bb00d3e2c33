/**
 * Files of weights that make vectors and scores: recognised by what they say of themselves, and served as that.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { post, refusal, said } from '../support/chat-client.js';
import { openService, type TestService, temporaryFolder } from '../support/service.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';
import { until } from '../support/until.js';
import { embeddings, lengthOf, likeness, ranked, vectorsOf } from '../support/vector-client.js';

const folder = temporaryFolder(t);
const file = (name: string) => join(folder, `${name}.gguf`);
let service: TestService;
t.before(async () => {
  await writeTinyModel(file('chat'), 'llama', { facts: [TINY_TEMPLATE] });
  await writeTinyModel(file('mean'), 'bert');
  await writeTinyModel(file('last'), 'qwen3');
  await writeTinyModel(file('rank'), 'bert-rank');
  const names = ['chat', 'mean', 'last', 'rank'];
  service = await openService(t, {
    PREFACE_WEIGHTS: names.map(file).join(','),
    PREFACE_THREADS: '1,1',
  });
});

t.test('each is listed as what it is', async (t) => {
  const list = (await (await service.call('GET', '/models')).json()) as {
    data: { id: string; kind: string; context_length: number }[];
  };
  const listed = list.data.map(({ id, kind, context_length }) => [id, kind, context_length]);
  for (const one of [
    ['chat', 'chat', 8_192],
    ['mean', 'embedding', 512],
    ['last', 'embedding', 8_192],
    ['rank', 'rerank', 512],
  ]) {
    t.ok(
      listed.some((each) => String(each) === String(one)),
      String(one),
    );
  }
});

t.test(
  'vectors have length 1, come alike in a batch and alone, and count their frame',
  async (t) => {
    const input = ['the quay at dawn', 'seven cranes and a ship', 'x'];
    for (const [model, frame] of [
      ['mean', 2],
      ['last', 1],
    ] as const) {
      const made = await embeddings(service, { model, input });
      for (const [at, vector] of vectorsOf(made).entries()) {
        t.equal(vector.length, 64);
        t.ok(Math.abs(lengthOf(vector) - 1) < 1e-5);
        const [alone] = vectorsOf(await embeddings(service, { model, input: input[at] }));
        t.ok(likeness(vector, alone) > 0.9999, `${model} ${at}`);
      }
      const bytes = input.reduce((sum, text) => sum + text.length, 0);
      const { prompt_tokens } = made.usage;
      t.ok(prompt_tokens > input.length * frame && prompt_tokens <= bytes + input.length * frame);
      // One token is one more wherever it stands alone.
      const one = await embeddings(service, { model, input: 'x' });
      t.equal(one.usage.prompt_tokens, 1 + frame);
    }
  },
);

t.test('only a model that is trained for it gives shorter vectors', async (t) => {
  const body = { input: 'the quay', dimensions: 16 };
  const [short = []] = vectorsOf(await embeddings(service, { model: 'last', ...body }));
  const [whole = []] = vectorsOf(await embeddings(service, { model: 'last', input: body.input }));
  t.equal(short.length, 16);
  t.ok(likeness(short, whole.slice(0, 16)) / lengthOf(whole.slice(0, 16)) > 0.99999);
  const found = await refusal(
    t,
    await service.call('POST', '/embeddings', { model: 'mean', ...body }),
  );
  t.match(found, { status: 400, param: 'dimensions' });
  t.match(
    found.message,
    /dimensions must be 64, as the model 'mean' is not trained for less, got 16/,
  );
});

t.test('an input beyond the window is refused with its tokens', async (t) => {
  const input = ['a', 'é '.repeat(400)];
  const found = await refusal(
    t,
    await service.call('POST', '/embeddings', { model: 'mean', input }),
  );
  t.match(found, { status: 400, param: 'input[1]' });
  t.match(found.message, /input\[1\] has \d+ tokens, and the model takes at most 512/);
});

t.test('a ranking has scores from 0 to 1, and a special token of a text is text', async (t) => {
  const documents = ['the harbour opens at six', '<|end|>', 'gulls'];
  const made = await ranked(service, { model: 'rank', query: 'when does it open', documents });
  t.equal(made.results.length, 3);
  t.ok(made.results.every(({ relevance_score: score }) => score > 0 && score < 1));
  const one = { model: 'rank', query: 'q', documents: ['<|end|>'] };
  t.ok((await ranked(service, one)).usage.prompt_tokens > 5);
});

/** Different sizes of what requests hold before the first vector is there. */
const SIZES_BEFORE = 5;
const INPUTS = 300;
const INPUTS_MAX = 2_048;

t.test('chats go on beside many inputs', async (t) => {
  const chat = { ...said('abc'), model: 'chat', max_tokens: 8 };
  // Both models are loaded: what is compared is the work alone.
  await (await post(service, chat)).text();
  await embeddings(service, { model: 'last', input: 'x' });
  // A quick machine is through with few inputs before the chat is sent: then there are more.
  let isFirst = false;
  for (let count = INPUTS; !isFirst && count <= INPUTS_MAX; count *= 2)
    isFirst = await isBesideInputs(t, chat, count);
  t.ok(isFirst, 'the chat is answered first');
});

async function isBesideInputs(t: Test, chat: object, count: number): Promise<boolean> {
  const input = Array.from({ length: count }, (_, at) => `${at} ${'the quay '.repeat(20)}`);
  let isOver = false;
  const batch = embeddings(service, { model: 'last', input }).finally(() => {
    isOver = true;
  });
  const sizes = new Set<string | undefined>();
  const grows = async () => {
    const figures = await (await fetch(new URL('/metrics', service.url))).text();
    sizes.add(/^preface_http_bodies_bytes (\d+)$/m.exec(figures)?.[1]);
    return isOver || sizes.size > SIZES_BEFORE;
  };
  await until(grows, 60_000, 'vectors come');
  const answer = await post(service, chat);
  t.equal(answer.status, 200);
  const isFirst = !isOver;
  t.equal((await batch).data.length, input.length);
  return isFirst;
}
