/**
 * Owns an extractor that keeps what it can of each document, as one does that a document has taken over: in memory, in the
 * prototype of every object, and in the scratch folder.
 * It must never be opened outside a test.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import type { ExtractorPlugin } from '../../src/plugin/contract.js';

const kept: string[] = [];
const SCRATCH = '/tmp';

function inScratch(): string[] {
  try {
    return readdirSync(SCRATCH).filter((name) => name.startsWith('ocr-kept-'));
  } catch {
    return [];
  }
}

function keep(text: string): void {
  kept.push(text);
  Object.assign(Object.prototype, { [`kept-${text}`]: true });
  try {
    writeFileSync(`${SCRATCH}/ocr-kept-${text}`, '');
  } catch {
    // It has no scratch folder here.
  }
}

function found(): string[] {
  const inherited: string[] = [];
  for (const name in {}) inherited.push(name);
  return [...kept, ...inherited, ...inScratch()];
}

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-keeping',
  contract: 1,
  open: async () => ({
    accepts: () => ({ fileType: 'text/x-kept', ground: 'content' }),
    async *extract({ bytes }) {
      const before = found();
      keep(Buffer.from(bytes).toString());
      yield { text: `found ${before.join(' ')}`, pages: 1, title: 'A title' };
    },
    close: async () => {},
  }),
};

export default plugin;
