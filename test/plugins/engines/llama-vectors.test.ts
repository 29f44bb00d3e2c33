/**
 * Owns the checks of vectors and scores that the local engine makes, on models of a megabyte with random weights.
 * It must never need more than the library that evaluates.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import plugin from '../../../plugins/engines/llama/index.js';
import { limits } from '../../../src/limits/index.js';
import type { Engine, EngineModelSpec, GenerateTask } from '../../../src/plugin/contract.js';
import { control } from '../../../src/plugin/test/engine.js';
import { vectorSuite } from '../../../src/plugin/test/vectors.js';
import { TINY_END, TINY_TEMPLATE, writeTinyModel } from '../../support/tiny-models.js';

const folder = t.testdir();
await mkdir(join(folder, 'state'), { recursive: true });
const fileOf = (name: string) => join(folder, `${name}.gguf`);
await writeTinyModel(fileOf('bert'), 'bert');
await writeTinyModel(fileOf('first'), 'bert', { facts: [['bert.pooling_type', 2]] });
await writeTinyModel(fileOf('rank'), 'bert-rank');
await writeTinyModel(fileOf('qwen3'), 'qwen3');
await writeTinyModel(fileOf('chat'), 'llama', { facts: [TINY_TEMPLATE] });

const spec = (id: string, over: Partial<EngineModelSpec> = {}): EngineModelSpec => ({
  id,
  weights: fileOf(id),
  window: limits.windowTokensMax,
  adaptsWindow: true,
  ...over,
});

const opened = await open(['bert', 'first', 'rank', 'qwen3', 'chat'].map((id) => spec(id)));
t.teardown(() => opened.close());

function open(models: readonly EngineModelSpec[]): Promise<Engine> {
  return plugin.open({
    models,
    exact: false,
    threads: { single: 1, batch: 1 },
    slots: 2,
    memoryBytesMax: 2 ** 30,
    snapshotBytesMax: 2 ** 20,
    stateDir: join(folder, 'state'),
  });
}

/** Ids that no other place has. */
const ids = (length: number, seed: number) =>
  Uint32Array.from({ length }, (_, at) => 1 + ((at * 7 + seed * 31) % 500));

const inputs = [5, 1, 80, 200, 33, 2, 120, 64].map(ids);

for (const model of ['bert', 'first', 'rank', 'qwen3']) {
  t.test(`${model} keeps the contract of vectors`, async (t) =>
    vectorSuite(t, async () => ({ engine: opened, model, inputs })),
  );
}

async function vectors(engine: Engine, model: string, inputs: readonly Uint32Array[]) {
  const found: Float32Array[] = [];
  for await (const event of engine.vectors?.({ model, owner: 'a', inputs }, control()) ?? []) {
    if (event.type === 'vectors') found.push(...event.vectors);
  }
  return found;
}

t.test('each file is what it says that it is', async (t) => {
  const facts = opened.models().map(({ id, kind = 'chat', window, vectors }) => {
    const { dimensions, shortens, before, after } = vectors ?? {};
    return { id, kind, window, dimensions, shortens, before, after };
  });
  const framed = { dimensions: 64, shortens: false, before: [TINY_END], after: [TINY_END] };
  t.match(facts, [
    { id: 'bert', kind: 'embedding', window: 512, ...framed },
    { id: 'first', kind: 'embedding', window: 512, ...framed },
    { id: 'rank', kind: 'rerank', window: 512 },
    {
      id: 'qwen3',
      kind: 'embedding',
      window: 8_192,
      shortens: true,
      before: [],
      after: [TINY_END],
    },
    { id: 'chat', kind: 'chat' },
  ]);
});

t.test('a long input in several batches gives what a lone one gives', async (t) => {
  const long = ids(1_900, 3);
  const short = [7, 90, 300].map(ids);
  const [alone] = await vectors(opened, 'qwen3', [long]);
  const [first, ...others] = await vectors(opened, 'qwen3', [long, ...short]);
  const dot = (a: Float32Array, b: Float32Array) =>
    a.reduce((sum, number, at) => sum + number * (b[at] ?? 0), 0);
  const near = (a: Float32Array = new Float32Array(1), b: Float32Array = new Float32Array(1)) =>
    dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)) > 0.9999;
  t.ok(near(alone, first));
  const apart = await vectors(opened, 'qwen3', short);
  t.ok(others.every((vector, at) => near(vector, apart[at])));
  // The end decides: another last id gives another vector.
  const changed = long.slice();
  changed[changed.length - 1] = 7;
  const [other] = await vectors(opened, 'qwen3', [changed]);
  t.notOk(near(alone, other));
});

t.test('a score is from 0 to 1, and depends on both parts of its pair', async (t) => {
  const scores = await vectors(opened, 'rank', [ids(20, 1), ids(20, 2), ids(21, 1)]);
  const numbers = scores.map(([score = -1]) => score);
  t.ok(numbers.every((score) => score > 0 && score < 1));
  t.equal(new Set(numbers).size, 3);
});

t.test('a chat beside many inputs has its time', async (t) => {
  const task: GenerateTask = {
    model: 'chat',
    owner: 'b',
    prompt: ids(40, 9),
    snapshot: null,
    maxTokens: 40,
    choices: 1,
    endIds: [],
    sampling: {
      temperature: 0,
      topP: 1,
      presencePenalty: 0,
      frequencyPenalty: 0,
      seed: null,
      ignoresEnd: true,
    },
    constraint: null,
    logprobs: null,
  };
  const answered = async (task: GenerateTask) => {
    let tokens = 0;
    for await (const event of opened.generate(task, control())) {
      if (event.type === 'piece') tokens += event.ids.length;
    }
    return tokens;
  };
  // Its context is open then: what opening takes is no matter of turns.
  t.equal(await answered({ ...task, maxTokens: 1 }), 1);
  const many = Array.from({ length: 600 }, (_, at) => ids(150, at));
  let isOver = false;
  const batch = vectors(opened, 'bert', many).finally(() => {
    isOver = true;
  });
  t.equal(await answered(task), 40);
  t.equal(isOver, false, 'the chat is answered while the batch goes on');
  t.equal((await batch).length, many.length);
});

t.test('owners take turns, whatever each has asked for', async (t) => {
  const ended: string[] = [];
  const ask = async (owner: string, count: number) => {
    const inputs = Array.from({ length: count }, (_, at) => ids(100, at));
    for await (const event of opened.vectors?.({ model: 'bert', owner, inputs }, control()) ?? []) {
      if (event.type !== 'vectors') t.fail('only vectors come');
    }
    ended.push(owner);
  };
  const greedy = Array.from({ length: 12 }, () => ask('greedy', 60));
  await Promise.all([...greedy, ask('modest', 60)]);
  // Half of each step is theirs: by then the other has made as many, of twelve times as many.
  t.ok(ended.indexOf('modest') < 3, `after ${ended.indexOf('modest')} of 12`);
});

t.test('a reader that stops does not keep others waiting', async (t) => {
  const many = Array.from({ length: 300 }, (_, at) => ids(20, at));
  const task = { model: 'bert', owner: 'a', inputs: many };
  const slow = opened.vectors?.(task, control())[Symbol.asyncIterator]();
  await slow?.next();
  t.equal((await vectors(opened, 'bert', inputs)).length, inputs.length);
  await slow?.return?.();
  t.equal((await vectors(opened, 'bert', inputs)).length, inputs.length);
});

t.test('what a file is not made for is refused by name, unless it can', async (t) => {
  const engine = await open([
    spec('asked', { weights: fileOf('chat'), kind: 'embedding' }),
    spec('no-chat', { weights: fileOf('bert'), kind: 'chat' }),
    spec('no-text', { weights: fileOf('rank'), kind: 'chat' }),
    spec('no-rank', { weights: fileOf('bert'), kind: 'rerank' }),
    spec('too-long', { weights: fileOf('bert'), window: 200, adaptsWindow: false }),
  ]);
  t.teardown(() => engine.close());
  t.match(
    engine.models().map(({ id, kind, window }) => [id, kind, window]),
    [
      ['asked', 'embedding', 8_192],
      ['too-long', 'embedding', 200],
    ],
  );
  t.match(engine.refused?.(), [
    { id: 'no-chat', reason: 'it makes embeddings and no text' },
    { id: 'no-text', reason: 'it ranks documents and writes no text' },
    { id: 'no-rank', reason: 'it makes embeddings and no text' },
  ]);
  t.equal((await vectors(engine, 'asked', inputs)).length, inputs.length);
  await t.rejects(vectors(engine, 'too-long', [ids(201, 1)]), /has 201 tokens/);
});
