/**
 * Owns a filter that is slow, like a classifier over the network: it rejects texts that contain "poison".
 * It must never break the contract, except for the words with which tests of the service make it misbehave.
 *
 * For `never` it gives no answer, for `broken` an error, both for input and output.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type {
  Filter,
  FilterPlugin,
  FilterStep,
  FilterStream,
  FilterText,
  FilterVerdict,
} from '../../src/plugin/contract.js';

const BAD = 'poison';

const plugin: FilterPlugin = {
  kind: 'filter',
  name: 'slow',
  contract: 1,
  open: async ({ file }) => new SlowFilter(file === null ? 'none' : 'some'),
};

export default plugin;

class SlowFilter implements Filter {
  constructor(readonly words: string) {}

  async check(texts: readonly FilterText[]): Promise<FilterVerdict> {
    for (const { text } of texts) {
      const verdict = await classified(text);
      if (verdict.type === 'rejected') return verdict;
    }
    return { type: 'allowed' };
  }

  open(before: string): FilterStream {
    let text = before;
    let step: FilterStep = { type: 'show', length: 0 };
    return {
      async push(more) {
        text += more;
        const verdict = await classified(text);
        if (verdict.type === 'rejected') return verdict;
        const held = Math.min(text.length, BAD.length);
        step = { type: 'show', length: Math.max(0, text.length - held - before.length) };
        return step;
      },
      end: () => classified(text),
    };
  }

  async close(): Promise<void> {}
}

async function classified(text: string): Promise<FilterVerdict> {
  await wait(1);
  if (text.includes('never')) await new Promise(() => {});
  if (text.includes('broken')) throw new Error('the classifier is broken');
  return text.includes(BAD) ? { type: 'rejected', rule: 'class 3' } : { type: 'allowed' };
}
