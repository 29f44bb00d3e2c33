/**
 * Owns the reading of a vocabulary from the metadata of a GGUF file.
 * It must never read tensors, and never guess: what it does not know it names in an error.
 */
import { type GgufMetadata, readGgufMetadata } from '../../gguf.js';
import { type GgufFacts, kinds, listAt, readFacts, textAt } from '../gguf/facts.js';
import { bytesOfLetters, letterOfByte } from '../shared/byte-letters.js';
import { NO_ID, packTokens } from '../shared/tokens.js';
import { patternOfPre } from './patterns.js';
import type { VocabularySource } from './source.js';

export async function readGgufVocabulary(path: string): Promise<VocabularySource> {
  const fields = await readGgufMetadata(path);
  const model = textAt(fields, 'tokenizer.ggml.model');
  if (model !== 'gpt2') {
    throw new Error(
      `the vocabulary of ${path} is of kind '${model}'; this plugin reads byte-level BPE ('gpt2')`,
    );
  }
  return vocabularyOf(fields);
}

/** Of byte-level BPE. @throws Error for a pre-tokenizer that has no pattern. */
export function vocabularyOf(fields: GgufMetadata): VocabularySource {
  const pattern = patternOfPre(textAt(fields, 'tokenizer.ggml.pre'));
  const facts = readFacts(fields, addsBos(fields));
  const { special, added, endIds, template, bosToken, eosToken, addBos } = facts;
  const tokens = tokenBytes(facts);
  return {
    pattern,
    vocabulary: packTokens(tokens),
    ...rankTokens(facts, tokens),
    special,
    added,
    endIds,
    template,
    bosToken,
    eosToken,
    addBos,
  };
}

/** Of each id; special ones have none. */
export function tokenBytes({ texts, kinds: kindOf }: GgufFacts): Uint8Array[] {
  const encoder = new TextEncoder();
  return texts.map((text, id) => {
    const bytes = kindOf[id] === kinds.normal ? bytesOfLetters(text) : null;
    const isShown = kindOf[id] === kinds.normal || kindOf[id] === kinds.userDefined;
    return bytes ?? encoder.encode(isShown ? text : '');
  });
}

/**
 * Ranks by the merge list, not by id: ids need not follow the order of the merges. Bytes come first,
 * and those the vocabulary lacks get a rank without an id, since the encoder must know all 256.
 */
function rankTokens(
  { fields, texts, kinds: kindOf }: GgufFacts,
  tokens: readonly Uint8Array[],
): Pick<VocabularySource, 'ranks' | 'idOfRank'> {
  const idOfText = new Map(texts.map((text, id) => [text, id]));
  const ranks: Uint8Array[] = [];
  const ids: number[] = [];
  const ranked = new Set<number>();
  const push = (id: number | undefined): void => {
    if (id === undefined || ranked.has(id) || kindOf[id] !== kinds.normal) return;
    ranked.add(id);
    ranks.push(tokens[id] ?? new Uint8Array(0));
    ids.push(id);
  };
  for (let byte = 0; byte < 256; byte += 1) {
    const id = idOfText.get(letterOfByte(byte));
    if (id === undefined) ids.push(NO_ID);
    if (id === undefined) ranks.push(Uint8Array.of(byte));
    push(id);
  }
  for (const merge of listAt<string>(fields, 'tokenizer.ggml.merges')) {
    push(idOfText.get(merge.replace(' ', '')));
  }
  return { ranks: packTokens(ranks), idOfRank: Uint32Array.from(ids) };
}

/** Of a file that does not say, those that the library puts a first token before. */
const BEGIN_WITH_BOS = new Set(
  'llama-bpe llama3 llama-v3 falcon3 falcon-h1 midm-2.0 lfm2 pixtral jina-v5-nano tekken chameleon'.split(
    ' ',
  ),
);

export function addsBos(fields: GgufMetadata): boolean {
  return BEGIN_WITH_BOS.has(String(fields['tokenizer.ggml.pre']));
}
