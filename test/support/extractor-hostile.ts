/**
 * Owns an extractor that does whatever the document says, and most of it is bad.
 * It must never be opened outside a test.
 */
import type { ExtractorPlugin } from '../../src/plugin/contract.js';

const acts: Readonly<Record<string, () => unknown>> = {
  loop: () => {
    for (;;);
  },
  heap: () => {
    const kept: unknown[] = [];
    for (;;) kept.push({ of: new Array(100).fill(kept.length) });
  },
  buffers: () => {
    const kept: Buffer[] = [];
    for (;;) kept.push(Buffer.alloc(8 * 2 ** 20, 1));
  },
  abort: () => process.kill(process.pid, 'SIGABRT'),
  exit: () => process.exit(0),
  junk: () => {
    throw { secret: '/etc/passwd' };
  },
  secret: () => {
    throw new Error('ENOENT /srv/secret/place');
  },
  locked: () => {
    throw Object.assign(new Error('it is protected by a password'), { code: 'encrypted' });
  },
  forever: () => new Promise(() => {}),
};

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-hostile',
  contract: 1,
  open: async () => ({
    accepts: () => ({ fileType: 'text/x-act', ground: 'content' }),
    async *extract({ bytes }) {
      const act = Buffer.from(bytes).toString();
      await acts[act]?.();
      yield { text: act, pages: 1 };
    },
    close: async () => {},
  }),
};

export default plugin;
