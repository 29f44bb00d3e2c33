/**
 * Owns the choice of the encoder for the vocabulary that a GGUF file holds.
 * It must never encode, nor take a kind of vocabulary for another: what it does not know it names.
 */
import type { Tokenizer, TokenizerPlugin } from 'preface/plugin';
import { type GgufMetadata, readGgufMetadata } from '../../gguf.js';
import { addsBos, vocabularyOf } from '../tiktoken/gguf.js';
import { isKnownPre } from '../tiktoken/patterns.js';
import { TiktokenTokenizer } from '../tiktoken/tokenizer.js';
import { bytePairVocabulary, spacedPairVocabulary } from './byte-pairs.js';
import { readFacts, textAt } from './facts.js';
import { sentencePieceVocabulary } from './sentence-piece.js';
import { GgufTokenizer } from './tokenizer.js';
import { unigramVocabulary } from './unigram.js';
import { wordPieceVocabulary } from './word-piece.js';

const plugin: TokenizerPlugin = {
  kind: 'tokenizer',
  name: 'tokenizer-gguf',
  contract: 1,
  async open({ path }) {
    if (path === null || !path.endsWith('.gguf'))
      throw new Error(`'${path ?? ''}' is no vocabulary of this plugin: a .gguf file is`);
    const fields = await readGgufMetadata(path);
    try {
      return tokenizerOf(fields);
    } catch (cause) {
      throw new Error(`the vocabulary of ${path} cannot be read: ${messageOf(cause)}`, { cause });
    }
  },
};

export default plugin;

function tokenizerOf(fields: GgufMetadata): Tokenizer {
  const model = textAt(fields, 'tokenizer.ggml.model');
  const pre = preOf(fields);
  if (model === 'llama') return new GgufTokenizer(sentencePieceVocabulary(readFacts(fields, true)));
  if (model === 'bert') return new GgufTokenizer(wordPieceVocabulary(readFacts(fields, true)));
  if (model === 't5') return new GgufTokenizer(unigramVocabulary(readFacts(fields, false)));
  if (model === 'gemma4' || (model === 'gpt2' && SPACED.has(pre))) {
    const takesLines = pre !== 'sarvam-moe';
    const facts = readFacts(fields, takesLines);
    return new GgufTokenizer(spacedPairVocabulary(facts, takesLines));
  }
  if (model !== 'gpt2') throw new Error(`it is of kind '${model}', which is none of ${KNOWN}`);
  if (isKnownPre(pre)) return new TiktokenTokenizer(vocabularyOf(fields));
  return new GgufTokenizer(bytePairVocabulary(readFacts(fields, addsBos(fields)), pre));
}

const KNOWN = `'gpt2' (byte-level BPE), 'llama' (SentencePiece), 'gemma4', 'bert' (WordPiece) and 't5' (unigram)`;

/** Byte-pair vocabularies whose tokens are text, not bytes in letters. */
const SPACED = new Set(['gemma4', 'granite-embed-multi-311m', 'sarvam-moe']);

/** Old files name none. */
function preOf(fields: GgufMetadata): string {
  return 'tokenizer.ggml.pre' in fields ? textAt(fields, 'tokenizer.ggml.pre') : 'default';
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
