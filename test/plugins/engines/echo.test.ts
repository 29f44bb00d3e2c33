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

const open = async () => ({
  engine: await plugin.open({
    models: [{ id: 'm', weights: null, window: 4_096 }],
    exact: true,
    threads: null,
    slots: 2,
    memoryBytesMax: 1e9,
    snapshotBytesMax: 1e9,
    stateDir,
  }),
  model: 'm',
  // A piece is a word with its space: here a single token, as the suite expects of small pieces.
  prompt: turns(`/repeat ${' '.repeat(40)}`),
  endIds: [TURN],
});

t.test('keeps the contract of engines', async (t) => engineSuite(t, open));
t.test('keeps prefixes as engines do', async (t) => snapshotSuite(t, open));
