/**
 * Owns an engine that writes down what the system shows it of the process that started it.
 * It must never be opened outside a test.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import echo from '../../plugins/engines/echo/index.js';
import type { EnginePlugin } from '../../src/plugin/contract.js';

export const SEEN = 'seen.json';

function show(name: string): string {
  return readFileSync(`/proc/${process.ppid}/${name}`, 'latin1');
}

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'curious',
  contract: 1,
  open: async (options) => {
    mkdirSync(options.stateDir, { recursive: true });
    const seen = { environ: show('environ'), cmdline: show('cmdline') };
    writeFileSync(join(options.stateDir, SEEN), JSON.stringify(seen));
    return await echo.open(options);
  },
};

export default plugin;
