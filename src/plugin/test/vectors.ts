/**
 * Owns the suite of the part of the engine contract that makes vectors and scores, run over every engine that does.
 * It must use nothing but the contract, and no knowledge of what a vector would be.
 */
import type { Engine, VectorTask } from '../contract.js';
import { control } from './engine.js';
import type { SuiteTest } from './suite-test.js';

export interface VectorSubject {
  readonly engine: Engine;
  /** Of kind `embedding` or `rerank`. */
  readonly model: string;
  /** Several that differ, of different lengths, each within the window. */
  readonly inputs: readonly Uint32Array[];
}

/**
 * Two evaluations of the same numbers in another order differ by less. Weights of 16 bits alone make a difference of a
 * thousandth in a number of a vector.
 */
const NOISE = 1e-3;

export function vectorSuite(t: SuiteTest, open: () => Promise<VectorSubject>): void {
  const task = ({ model }: VectorSubject, inputs: readonly Uint32Array[]): VectorTask => ({
    model,
    owner: 'alice',
    inputs,
  });

  t.test('the model says what it is', async (t) => {
    const { engine, model } = await open();
    const offered = engine.models().find(({ id }) => id === model);
    t.ok(offered?.kind === 'embedding' || offered?.kind === 'rerank', 'a kind');
    t.ok(offered?.vectors !== undefined, 'its facts');
  });

  t.test('a vector for each input, in order, of the same length', async (t) => {
    const subject = await open();
    const { engine, model, inputs } = subject;
    const vectors = await vectorsOf(engine, task(subject, inputs));
    t.equal(vectors.length, inputs.length);
    const offered = engine.models().find(({ id }) => id === model);
    const length = offered?.kind === 'rerank' ? 1 : offered?.vectors?.dimensions;
    for (const vector of vectors) {
      if (typeof length === 'number') t.equal(vector.length, length);
      t.ok(vector.every(Number.isFinite), 'numbers');
    }
  });

  t.test('a batch gives what each input gives alone, and again', async (t) => {
    const subject = await open();
    const { engine, inputs } = subject;
    const batch = await vectorsOf(engine, task(subject, inputs));
    for (const [at, input] of inputs.entries()) {
      const [alone] = await vectorsOf(engine, task(subject, [input]));
      t.ok(distance(alone, batch[at]) < NOISE, `input ${at} alone`);
    }
    const again = await vectorsOf(engine, task(subject, inputs));
    t.ok(
      again.every((vector, at) => distance(vector, batch[at]) < NOISE),
      'again',
    );
  });

  t.test('tasks at the same time do not mix', async (t) => {
    const subject = await open();
    const { engine, inputs } = subject;
    const expected = await vectorsOf(engine, task(subject, inputs));
    const turned = [...inputs].reverse();
    const tasks = [inputs, turned, inputs].map((each) => vectorsOf(engine, task(subject, each)));
    const [first = [], second = [], third = []] = await Promise.all(tasks);
    for (const vectors of [first, [...second].reverse(), third]) {
      t.ok(
        vectors.every((vector, at) => distance(vector, expected[at]) < NOISE),
        'each its own',
      );
    }
  });

  t.test('a cancelled task ends, and the next one runs', async (t) => {
    const subject = await open();
    const { engine, inputs } = subject;
    const abort = new AbortController();
    abort.abort();
    const none = await vectorsOf(engine, task(subject, inputs), abort.signal);
    t.ok(none.length < inputs.length, 'it ends early');
    t.equal((await vectorsOf(engine, task(subject, inputs))).length, inputs.length);
  });
}

async function vectorsOf(
  engine: Engine,
  task: VectorTask,
  signal = new AbortController().signal,
): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for await (const event of engine.vectors?.(task, control({ signal })) ?? []) {
    if (event.type === 'vectors') vectors.push(...event.vectors);
  }
  return vectors;
}

/** Of vectors what their cosine lacks of 1, of scores their difference. */
function distance(a: Float32Array | undefined, b: Float32Array | undefined): number {
  if (a === undefined || b === undefined || a.length !== b.length) return Number.POSITIVE_INFINITY;
  if (a.length === 1) return Math.abs((a[0] ?? 0) - (b[0] ?? 0));
  const dot = (x: Float32Array, y: Float32Array) =>
    x.reduce((sum, number, at) => sum + number * (y[at] ?? 0), 0);
  return 1 - dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}
