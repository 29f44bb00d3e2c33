/**
 * Owns the check that the echo engine keeps the contract of engines, so that what is tested on it holds on a real one.
 * It must never need a binary or weights.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import plugin from '../../../plugins/engines/echo/index.js';
import { engineSuite } from '../../../src/plugin/test/engine.js';
import { snapshotSuite } from '../../../src/plugin/test/engine-snapshots.js';
import { vectorSuite } from '../../../src/plugin/test/vectors.js';

const stateDir = await mkdtemp(join(tmpdir(), 'preface-echo-'));
t.teardown(() => rm(stateDir, { recursive: true }));

const TURN = 300;

function turns(text: string): Uint32Array {
  const bytes = (part: string) => [...Buffer.from(part)];
  return Uint32Array.from([
    ...[TURN, ...bytes(`user\n${text}`), TURN],
    ...[...bytes('\n'), TURN, ...bytes('assistant\n')],
  ]);
}

const openEngine = () =>
  plugin.open({
    models: [
      { id: 'm', weights: null, window: 4_096 },
      { id: 'embedding', weights: null, window: 4_096, kind: 'embedding' },
      { id: 'rerank', weights: null, window: 4_096, kind: 'rerank' },
    ],
    exact: true,
    threads: null,
    slots: 2,
    memoryBytesMax: 1e9,
    snapshotBytesMax: 1e9,
    stateDir,
  });

const open = async () => ({
  engine: await openEngine(),
  model: 'm',
  // A piece is a word with its space: here a single token, as the suite expects of small pieces.
  prompt: turns(`/repeat ${' '.repeat(40)}`),
  endIds: [TURN],
});

t.test('keeps the contract of engines', async (t) => engineSuite(t, open));
t.test('keeps prefixes as engines do', async (t) => snapshotSuite(t, open));

for (const model of ['embedding', 'rerank']) {
  const inputs = ['a quay', 'gulls and a quay at dawn', 'x', 'a harbour with seven cranes'];
  const open = async () => ({
    engine: await openEngine(),
    model,
    inputs: inputs.map((text) =>
      Uint32Array.from([...Buffer.from(`a quay \n`), 257, ...Buffer.from(text)]),
    ),
  });
  t.test(`makes what is asked of a model of kind ${model}`, async (t) => vectorSuite(t, open));
}
