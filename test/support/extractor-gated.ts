/**
 * Owns an extractor that waits until the test lets it read: a file that the document names opens the gate.
 * It must never be opened outside a test.
 *
 * A document is one line of JSON: `{"gate": path, "text": words}`. Its reader sees only the package, so gates lie there.
 */
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { ExtractorPlugin } from '../../src/plugin/contract.js';

export interface GatedDocument {
  readonly gate?: string;
  readonly text?: string;
  readonly refusal?: string;
}

const LOOK_MS = 5;

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-gated',
  contract: 1,
  open: async () => ({
    accepts: () => ({ fileType: 'text/x-gated', ground: 'content' }),
    async *extract({ bytes }) {
      const { gate, text, refusal } = JSON.parse(Buffer.from(bytes).toString()) as GatedDocument;
      while (gate !== undefined && !existsSync(gate)) await delay(LOOK_MS);
      if (refusal !== undefined) throw Object.assign(new Error(refusal), { code: 'damaged' });
      yield { text: text ?? 'text', pages: 1, title: 'A title' };
    },
    close: async () => {},
  }),
};

export default plugin;
