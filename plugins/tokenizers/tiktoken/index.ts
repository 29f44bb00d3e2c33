/**
 * Owns the choice of the vocabulary for the tiktoken tokenizer: a GGUF file, a ranks file, or the shipped one.
 * It must never encode; that is the business of the tokenizer it opens.
 */
import type { TokenizerPlugin } from 'preface/plugin';
import { readGgufVocabulary } from './gguf.js';
import { readKimiVocabulary, shippedRanksPath } from './kimi.js';
import type { VocabularySource } from './source.js';
import { TiktokenTokenizer } from './tokenizer.js';

const plugin: TokenizerPlugin = {
  kind: 'tokenizer',
  name: 'tokenizer-tiktoken',
  contract: 1,
  async open({ path }) {
    return new TiktokenTokenizer(await readVocabulary(path));
  },
};

export default plugin;

/** Without a path it is the Kimi K2 vocabulary that lies in `plugins/data`. */
async function readVocabulary(path: string | null): Promise<VocabularySource> {
  if (path === null) return readKimiVocabulary(shippedRanksPath());
  if (path.endsWith('.gguf')) return await readGgufVocabulary(path);
  if (/\.tiktoken(\.gz)?$/.test(path)) return readKimiVocabulary(path);
  throw new Error(`'${path}' is no vocabulary: a .gguf, .tiktoken or .tiktoken.gz file is`);
}
