/**
 * Owns a process that makes once what services of a run bring with them: `node find-exactness.js FOLDER shallow`, or `whole`.
 * It must never be asked by a test: those that look at the finding have the engine make it.
 */
import { existsSync } from 'node:fs';
import plugin from '../../plugins/engines/llama/index.js';
import { Runtime } from '../../plugins/engines/llama/native.js';
import { makeShallowWeights } from './shallow-weights.js';
import { smallModelPath } from './weights.js';

const [stateDir = '', which = 'shallow'] = process.argv.slice(2);

async function find(weights: string): Promise<void> {
  const engine = await plugin.open({
    models: [{ id: 'm', weights, window: 256 }],
    exact: true,
    // Two, so that it holds for services of one thread and of several.
    threads: { single: 1, batch: 2 },
    slots: 1,
    memoryBytesMax: 1_000_000_000,
    snapshotBytesMax: 0,
    stateDir,
  });
  await engine.close();
}

if (existsSync(smallModelPath)) {
  // It takes the library's log, which tells of each tensor.
  await Runtime.open();
  await find(which === 'shallow' ? makeShallowWeights(stateDir) : smallModelPath);
}
