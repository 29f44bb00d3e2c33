/**
 * Owns a program of Node's own test runner that runs the suites over the example plugins, as a plugin author would.
 * It must never use tap. With the argument `broken` the filter allows everything, and its suite must fail.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import type { FilterPlugin } from 'preface/plugin';
import { engineSuite, filterSuite, snapshotSuite, underNode } from 'preface/plugin/test';
import engine from '../../plugins/examples/engine-alphabet.js';
import cards from '../../plugins/examples/filter-cards.js';

const blind: FilterPlugin = {
  ...cards,
  open: async (options) => ({
    ...(await cards.open(options)),
    check: () => ({ type: 'allowed' }),
  }),
};

test('filter', (t) =>
  underNode(t, (t) =>
    filterSuite(t, {
      name: 'cards',
      plugin: process.argv.includes('broken') ? blind : cards,
      options: { file: null },
      rejected: ['4111 1111 1111 1111'],
      allowed: ['call me at noon'],
    }),
  ));

test('engine', async (t) => {
  const stateDir = await mkdtemp(join(tmpdir(), 'preface-suite-'));
  t.after(() => rm(stateDir, { recursive: true, force: true }));
  const bounds = { slots: 2, memoryBytesMax: 1e9, snapshotBytesMax: 1e9 };
  const models = [{ id: 'm', weights: null, window: 4_096 }];
  const open = async () => ({
    engine: await engine.open({ ...bounds, models, exact: true, threads: null, stateDir }),
    model: 'm',
    prompt: Uint32Array.from({ length: 40 }, (_, i) => i),
    endIds: [257],
  });
  await underNode(t, async (t) => {
    t.test('generations', async (t) => engineSuite(t, open));
    t.test('kept prefixes', async (t) => snapshotSuite(t, open));
  });
});
