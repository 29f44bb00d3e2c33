/**
 * Owns a tokenizer that ends or blocks its thread as a text says; the rest is the byte tokenizer.
 * It must never be opened outside a test.
 */
import bytes from '../../plugins/tokenizers/bytes/index.js';
import type { Tokenizer, TokenizerPlugin } from '../../src/plugin/contract.js';
import { endThread } from './end-thread.js';

const plugin: TokenizerPlugin = {
  kind: 'tokenizer',
  name: 'hostile',
  contract: 1,
  async open(options) {
    const inner = await bytes.open(options);
    const tokenizer: Tokenizer = {
      info: () => inner.info(),
      encode(text) {
        endThread(/\/tokenize-(\w+)/.exec(text)?.[1]);
        return inner.encode(text);
      },
      close: () => inner.close(),
    };
    return tokenizer;
  },
};

export default plugin;
