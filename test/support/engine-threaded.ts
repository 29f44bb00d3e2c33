/**
 * Owns an engine that says it is free of native code, notes what its thread can see, and ends the thread as a prompt says.
 * It must never be opened outside a test.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EnginePlugin, GenerateTask } from '../../src/plugin/contract.js';
import hostile from './engine-hostile.js';

/** The file in the engine's folder with the variables that its thread has. */
export const THREAD_SAW = 'thread-saw.json';

const plugin: EnginePlugin = {
  ...hostile,
  name: 'threaded',
  nativeFree: true,
  async open(options) {
    if (options.stateDir !== '')
      writeFileSync(join(options.stateDir, THREAD_SAW), JSON.stringify(process.env));
    const inner = await hostile.open(options);
    return {
      models: () => inner.models(),
      generate(task, control) {
        const thrown = THROWN.find(([word]) => textOf(task).includes(word));
        if (thrown !== undefined) setImmediate(fail, thrown[1]);
        return inner.generate(task, control);
      },
      prefill: (task, signal) => inner.prefill(task, signal),
      forget: (snapshot) => inner.forget(snapshot),
      close: () => inner.close(),
    };
  },
};

export default plugin;

function textOf({ prompt }: GenerateTask): string {
  return Buffer.from(prompt.filter((id) => id < 256)).toString();
}

const THROWN: readonly (readonly [string, unknown])[] = [
  ['/uncaught-null', null],
  ['/uncaught', new Error('nobody catches this')],
];

function fail(thrown: unknown): never {
  throw thrown;
}
