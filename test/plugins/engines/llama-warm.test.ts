/**
 * Owns the proof of what the local engine keeps in memory: pinned prefixes within their bound, and those that were used
 * most before a stop. It must compare every answer with that of a run that reuses nothing, on every kind of memory.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import plugin from '../../../plugins/engines/llama/index.js';
import type { Engine, EngineOptions, GenerateTask } from '../../../src/plugin/contract.js';
import { answer } from '../../../src/plugin/test/engine.js';
import { seededRandom } from '../../../src/plugin/test/random-text.js';
import { TINY_TOKENS, tinyModels, writeTinyModel } from '../../support/tiny-models.js';

const root = await mkdtemp(join(tmpdir(), 'preface-warm-'));
t.teardown(() => rm(root, { recursive: true }));
t.setTimeout(300_000);

const forEver = new AbortController().signal;
const GREEDY = { temperature: 0, topP: 1, presencePenalty: 0, frequencyPenalty: 0, seed: null };
let folders = 0;

/** One sequence: whatever comes next takes the place of what was there. */
const options = (weights: string, over: Partial<EngineOptions> = {}): EngineOptions => ({
  models: [{ id: 'm', weights, window: 1_024 }],
  exact: true,
  threads: { single: 1, batch: 1 },
  slots: 1,
  memoryBytesMax: 1_000_000_000,
  snapshotBytesMax: 50_000_000,
  pinnedBytesMax: 50_000_000,
  stateDir: join(root, `${folders++}`),
  ...over,
});

function ids(seed: number, length: number): Uint32Array {
  const random = seededRandom(seed);
  return Uint32Array.from({ length }, () => 1 + random(TINY_TOKENS - 1));
}

const PREFIX = ids(1, 240);
const OTHER = ids(2, 240);
const behind = (prefix: Uint32Array) => Uint32Array.from([...prefix, ...ids(3, 9)]);

const task = (over: Partial<GenerateTask> = {}): GenerateTask => ({
  model: 'm',
  owner: 'alice',
  prompt: behind(PREFIX),
  snapshot: { name: 'a', tokens: PREFIX.length },
  maxTokens: 6,
  choices: 1,
  endIds: [],
  sampling: GREEDY,
  constraint: null,
  logprobs: 1,
  ...over,
});

const prefill = (
  name: string,
  prompt: Uint32Array,
  more: { pin?: boolean; spare?: boolean } = {},
) => ({ model: 'm', owner: 'alice', prompt, snapshot: name, ...more }) as const;

/** The bits of an answer, and what was reused for it. */
async function told(t: Test, engine: Engine, over: Partial<GenerateTask> = {}) {
  const { started, events } = await answer(t, engine, task(over));
  const bits = events.flatMap((event) => (event.type === 'piece' ? (event.logprobs ?? []) : []));
  return { reused: started[0] ?? 0, bits: JSON.stringify(bits) };
}

/** What a sequence holds of the prefix is gone then. */
const emptied = (t: Test, engine: Engine) =>
  told(t, engine, { prompt: behind(OTHER), snapshot: null, owner: 'somebody' });

const emptyFolder = async (stateDir: string) => {
  const folder = join(stateDir, 'snapshots');
  for (const file of await readdir(folder)) await rm(join(folder, file));
};

for (const arch of tinyModels) {
  t.test(`${arch}: a pinned prefix needs no disk, and gives the cold answer`, async (t) => {
    const weights = join(root, `${arch}.gguf`);
    await writeTinyModel(weights, arch);
    const of = options(weights);
    const engine = await plugin.open(of);
    const cold = await told(t, engine, { snapshot: null, owner: 'cold' });
    const made = await engine.prefill(prefill('a', PREFIX, { pin: true }), forEver);
    t.match(made, { pinned: true });
    t.ok(made.evaluatedTokens > 0);
    await emptied(t, engine);
    await emptyFolder(of.stateDir);
    for (const time of ['first', 'second']) {
      const hit = await told(t, engine);
      t.ok(hit.reused >= PREFIX.length - 128, `${time}: ${hit.reused} tokens came from memory`);
      t.equal(hit.bits, cold.bits);
      await emptied(t, engine);
    }
    await engine.forget('a');
    await emptied(t, engine);
    t.equal((await told(t, engine)).reused, 0, 'what was forgotten is nowhere');
    await engine.close();
  });

  t.test(`${arch}: a start takes up what is pinned, and what was used most`, async (t) => {
    const weights = join(root, `${arch}.gguf`);
    const of = options(weights, { slots: 2 });
    const first = await plugin.open(of);
    const cold = await told(t, first, { snapshot: null, owner: 'cold' });
    await first.prefill(prefill('a', PREFIX, { pin: true }), forEver);
    await first.prefill(prefill('b', OTHER), forEver);
    await first.prefill(prefill('c', ids(4, 240)), forEver);
    const used = { prompt: behind(OTHER), snapshot: { name: 'b', tokens: OTHER.length } };
    const right = await told(t, first, { ...used, snapshot: null, owner: 'cold' });
    for (let i = 0; i < 5; i++) await told(t, first, used);
    await first.close();
    const second = await plugin.open(of);
    const report = await second.warm?.();
    t.match(report, { pinned: { count: 1 }, loaded: { count: 1 } });
    await emptyFolder(of.stateDir);
    const most = await told(t, second, used);
    t.ok(most.reused >= OTHER.length - 128, `${most.reused} tokens were loaded ahead`);
    t.equal(most.bits, right.bits);
    const stranger = await told(t, second, { ...used, snapshot: null, owner: 'mallory' });
    t.same([stranger.reused, stranger.bits], [0, right.bits], 'for their owner alone');
    const pinned = await told(t, second);
    t.ok(pinned.reused > 0);
    t.equal(pinned.bits, cold.bits);
    await second.close();
  });
}

const llama = join(root, 'llama.gguf');

t.test('pins have a bound, and one owner has half of it', async (t) => {
  const of = options(llama);
  const first = await plugin.open(of);
  const { bytes } = await first.prefill(prefill('a', PREFIX), forEver);
  await first.close();
  const engine = await plugin.open({ ...of, pinnedBytesMax: 3 * bytes });
  const pin = async (name: string, prompt: Uint32Array, owner = 'alice') =>
    (await engine.prefill({ ...prefill(name, prompt, { pin: true }), owner }, forEver)).pinned;
  t.equal(await pin('a', PREFIX), true);
  t.notOk(await pin('b', OTHER), 'half of three has no room for two');
  t.equal(await pin('d', PREFIX, 'bob'), true, 'others have their own share');
  await engine.prefill(prefill('a', PREFIX, { pin: false }), forEver);
  t.equal(await pin('b', OTHER), true, 'what is let go of makes room');
  await engine.prefill(prefill('b', OTHER), forEver);
  await emptied(t, engine);
  await emptyFolder(of.stateDir);
  const over = { prompt: behind(OTHER), snapshot: { name: 'b', tokens: OTHER.length } };
  t.ok(
    (await told(t, engine, over)).reused > 0,
    'a prefill that says nothing of it changes nothing',
  );
  await engine.close();
});

t.test('where the disk is short, what nobody asked for goes first, and a pin last', async (t) => {
  const of = options(llama);
  const first = await plugin.open(of);
  const { bytes } = await first.prefill(prefill('a', PREFIX), forEver);
  await first.close();
  const engine = await plugin.open({ ...of, snapshotBytesMax: 3.5 * bytes + 75_000 });
  const names = async () =>
    (await readdir(join(of.stateDir, 'snapshots'))).map((name) => name.split('.')[0]).sort();
  await engine.prefill(prefill('a', PREFIX, { pin: true }), forEver);
  await engine.prefill(prefill('b', ids(5, 240)), forEver);
  await engine.prefill(prefill('c', ids(6, 240), { spare: true }), forEver);
  await engine.prefill(prefill('d', ids(7, 240)), forEver);
  t.same(await names(), ['a', 'b', 'd'], 'the newest goes: nobody asked for it');
  await engine.prefill(prefill('e', ids(8, 240)), forEver);
  t.same(await names(), ['a', 'd', 'e'], 'then the longest unused that is not pinned');
  await engine.prefill(prefill('f', ids(9, 240), { spare: true }), forEver);
  await engine.prefill(prefill('f', ids(9, 240), { spare: false }), forEver);
  await engine.prefill(prefill('g', ids(10, 240)), forEver);
  t.same(await names(), ['a', 'f', 'g'], 'one that somebody asks for later is as any other');
  await engine.close();
});

t.test(
  'keys and values of eight bits: half of the memory and disk, or three quarters',
  async (t) => {
    const sizes = async (over: Partial<EngineOptions>) => {
      const of = options(llama, over);
      const engine = await plugin.open(of);
      const { bytes } = await engine.prefill(prefill('a', PREFIX), forEver);
      const [file = ''] = await readdir(join(of.stateDir, 'snapshots'));
      t.equal((await stat(join(of.stateDir, 'snapshots', file))).size, bytes);
      const [model] = engine.models();
      const cold = await told(t, engine, { snapshot: null, owner: 'cold' });
      await emptied(t, engine);
      const hit = await told(t, engine);
      await engine.close();
      return { bytes, exact: model?.exact, print: model?.fingerprint, cold, hit };
    };
    const whole = await sizes({ exact: false });
    const half = await sizes({ exact: false, kv: 'q8_0' });
    const exact = await sizes({ kv: 'q8_0' });
    const plain = await sizes({});
    t.ok(half.bytes < 0.58 * whole.bytes, `${half.bytes} of ${whole.bytes} bytes`);
    t.ok(
      exact.bytes < 0.8 * plain.bytes,
      `${exact.bytes} of ${plain.bytes} bytes where it is exact`,
    );
    t.equal(exact.exact, 'proved', 'the comparison runs with them');
    t.ok(exact.hit.reused > 0);
    t.equal(exact.hit.bits, exact.cold.bits);
    t.ok(half.hit.reused > 0);
    const prints = new Set([whole, half, exact, plain].map(({ print }) => print));
    t.equal(prints.size, 4, 'a snapshot of other numbers is never loaded');
  },
);
