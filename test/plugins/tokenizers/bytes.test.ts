import t from 'tap';
import plugin from '../../../plugins/tokenizers/bytes/index.js';
import { tokenizerSuite } from '../../../src/plugin/test/tokenizer.js';

tokenizerSuite(t, { name: 'tokenizer-bytes', plugin, options: { path: null } });

t.test('a token is a byte', async (t) => {
  const tokenizer = await plugin.open({ path: null });
  t.same([...tokenizer.encode('aé')], [0x61, 0xc3, 0xa9]);
  t.same(tokenizer.info().special, { '<|im_start|>': 256, '<|im_end|>': 257, '<|image|>': 258 });
});
