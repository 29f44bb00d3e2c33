/**
 * Owns a filter that takes its time, as a classifier over the network does: it rejects what holds "poison".
 * It must keep the contract; three words make it misbehave as the tests of the service want it.
 *
 * `never` is never answered, `broken` is an error, and both hold for input and output.
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
