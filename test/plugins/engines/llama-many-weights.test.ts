/**
 * Owns the proof that several files of weights share the memory: loaded when used, given back for another, never under work.
 * It must never judge the answers, which are noise; only that they stay the same.
 */
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import plugin from '../../../plugins/engines/llama/index.js';
import type { Engine, EngineOptions } from '../../../src/plugin/contract.js';
import { control } from '../../../src/plugin/test/engine.js';
import { tinyModels, writeTinyModel } from '../../support/tiny-models.js';

t.setTimeout(300_000);
const folder = mkdtempSync(join(tmpdir(), 'preface-many-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

/** The library maps a file while its tensors are loaded. */
const isLoaded = (path: string) => readFileSync('/proc/self/maps', 'utf8').includes(path);

function opened(paths: readonly string[], over: Partial<EngineOptions> = {}): Promise<Engine> {
  return plugin.open({
    models: paths.map((weights, at) => ({ id: `m${at}`, weights, window: 512 })),
    exact: true,
    threads: { single: 1, batch: 1 },
    slots: 2,
    stateDir: join(folder, 'state'),
    memoryBytesMax: 1_000_000_000,
    snapshotBytesMax: 50_000_000,
    ...over,
  });
}

function start(engine: Engine, model: string, maxTokens = 6) {
  const sampling = { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: null };
  const prompt = Uint32Array.from({ length: 20 }, (_, i) => 1 + ((i * 37) % 500));
  const task = { model, owner: 'alice', prompt, snapshot: null, maxTokens, choices: 1 };
  return engine.generate(
    { ...task, endIds: [], sampling, constraint: null, logprobs: null },
    control(),
  );
}

async function answer(engine: Engine, model: string): Promise<number[]> {
  const ids: number[] = [];
  for await (const event of start(engine, model))
    if (event.type === 'piece') ids.push(...event.ids);
  return ids;
}

async function files(): Promise<string[]> {
  const paths = tinyModels.slice(0, 3).map((arch) => join(folder, `${arch}.gguf`));
  for (const [at, arch] of tinyModels.slice(0, 3).entries())
    await writeTinyModel(paths[at] ?? '', arch);
  return paths;
}

const skip = process.platform === 'linux' ? false : 'the maps of a process are told by Linux';

t.test('weights in parts answer as the whole file does', async (t) => {
  const folder = t.testdir({});
  const answers: unknown[] = [];
  for (const name of ['whole.gguf', 'parts-00001-of-00003.gguf']) {
    const weights = join(folder, name);
    await writeTinyModel(weights, 'llama');
    const engine = await plugin.open({
      models: [{ id: 'm', weights, window: 256 }],
      exact: true,
      threads: { single: 1, batch: 1 },
      slots: 1,
      memoryBytesMax: 1_000_000_000,
      snapshotBytesMax: 1_000_000,
      stateDir: join(folder, `state-${name}`),
    });
    const sampling = { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: 1 };
    const prompt = Uint32Array.from({ length: 20 }, (_, i) => 1 + i);
    const task = { model: 'm', owner: 'a', prompt, snapshot: null, maxTokens: 5, choices: 1 };
    const rest = { endIds: [], sampling, constraint: null, logprobs: 1 };
    const pieces: unknown[] = [];
    for await (const event of engine.generate({ ...task, ...rest }, control()))
      if (event.type === 'piece') pieces.push([event.ids, event.logprobs]);
    answers.push(pieces.flat(3));
    await engine.close();
  }
  t.same(answers[0], answers[1]);
});

t.test(
  'weights are loaded when used, and the least recently used make room',
  { skip },
  async (t) => {
    const paths = await files();
    const [a = '', b = '', c = ''] = paths;
    const sizes = paths.map((path) => statSync(path).size);
    const all = sizes.reduce((sum, size) => sum + size, 0);
    // Room for any two of them.
    const weightsBytesMax = all - Math.min(...sizes) / 2;
    const engine = await opened(paths, { weightsBytesMax });
    t.teardown(() => engine.close());
    t.same(paths.map(isLoaded), [false, false, false], 'none before it is used');
    const first = await answer(engine, 'm0');
    await answer(engine, 'm1');
    t.same(paths.map(isLoaded), [true, true, false]);
    await answer(engine, 'm0');
    await answer(engine, 'm2');
    t.notOk(isLoaded(b), 'the one that nobody used for longest');
    t.ok(isLoaded(a) && isLoaded(c));
    await answer(engine, 'm1');
    t.same(await answer(engine, 'm0'), first, 'loaded again, it answers as before');
  },
);

t.test('weights under work stay; who wants the room waits for it', { skip }, async (t) => {
  const paths = await files();
  const engine = await opened(paths, { weightsBytesMax: 1 });
  t.teardown(() => engine.close());
  const running = start(engine, 'm0', 200)[Symbol.asyncIterator]();
  await running.next();
  const waiting = answer(engine, 'm1');
  let pieces = 0;
  for (;;) {
    const { done, value } = await running.next();
    if (done) break;
    if (value.type === 'piece') pieces += value.ids.length;
  }
  t.equal(pieces, 200, 'the running answer is whole');
  t.equal((await waiting).length, 6);
  t.notOk(isLoaded(paths[0] ?? ''));
});

t.test('a model without a window gets what it was trained for and the memory holds', async (t) => {
  const weights = join(folder, 'llama.gguf');
  const models = [{ id: 'm', weights, window: 1_000_000, adaptsWindow: true }];
  const windows = [1_000_000_000, 80_000_000, 64_000_000, 10_000_000].map(
    async (memoryBytesMax) => {
      const engine = await opened([], { models, memoryBytesMax });
      const [model] = engine.models();
      const [refused] = engine.refused?.() ?? [];
      await engine.close();
      return model?.window ?? refused?.reason;
    },
  );
  t.same(await Promise.all(windows), [
    8_192,
    4_096,
    2_048,
    'even 512 tokens do not fit into the memory',
  ]);
});
