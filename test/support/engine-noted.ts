/**
 * Owns an engine that notes the calls it gets, in a file named after its state folder; the rest is the echo engine.
 * It must never be opened outside a test.
 */
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import echo from '../../plugins/engines/echo/index.js';
import type { EnginePlugin } from '../../src/plugin/contract.js';

/** Folder of the notes: `prepare` hears of no options, and an engine gets no variable but those of its libraries. */
export const NOTES = 'GGML_TEST_NOTES';
const folder = process.env[NOTES] ?? '';

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'noted',
  contract: 1,
  async prepare() {
    note('prepare');
  },
  async open(options) {
    note('open');
    const inner = await echo.open(options);
    return {
      models: () => inner.models(),
      generate: (task, control) => inner.generate(task, control),
      prefill: (task, signal) => inner.prefill(task, signal),
      forget: (snapshot) => inner.forget(snapshot),
      async warm() {
        note('warm');
        if (existsSync(join(folder, 'fail'))) throw new Error('it cannot be warm');
        // Never, where a test checks what waits for it.
        if (existsSync(join(folder, 'hold'))) await new Promise(() => {});
        return null;
      },
      close: () => inner.close(),
    };
  },
};

export default plugin;

function note(what: string): void {
  appendFileSync(join(folder, `${process.pid}`), `${what} `);
}
