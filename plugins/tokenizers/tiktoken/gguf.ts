/**
 * Owns the reading of a vocabulary from the metadata of a GGUF file.
 * It must never read tensors, and never guess: what it does not know it names in an error.
 */
import { type GgufMetadata, readGgufMetadata } from '../../gguf.js';
import { patternOfPre } from './patterns.js';
import { NO_ID, packTokens, type VocabularySource } from './source.js';

/** Kinds of `tokenizer.ggml.token_type`. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const NORMAL = 1;

/** End-of-turn tokens by name, for files that state only one of theirs. */
const END_NAMES = new Set([
  '<|endoftext|>',
  '<|end_of_text|>',
  '<|im_end|>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|end|>',
  '<end_of_turn>',
  '<EOT>',
  '</s>',
  '[EOS]',
]);

export async function readGgufVocabulary(path: string): Promise<VocabularySource> {
  const fields = await readGgufMetadata(path);
  const model = textAt(fields, 'tokenizer.ggml.model');
  if (model !== 'gpt2') {
    throw new Error(
      `the vocabulary of ${path} is of kind '${model}'; this plugin reads byte-level BPE ('gpt2')`,
    );
  }
  return sourceOf(fields);
}

function sourceOf(fields: GgufMetadata): VocabularySource {
  const texts = listAt<string>(fields, 'tokenizer.ggml.tokens');
  const kinds = listAt<number>(fields, 'tokenizer.ggml.token_type');
  const special: Record<string, number> = {};
  const added = new Map<string, number>();
  const tokens = texts.map((text, id) => {
    const kind = kinds[id] ?? NORMAL;
    if (kind === CONTROL || kind === UNKNOWN) special[text] = id;
    if (kind === USER_DEFINED) added.set(text, id);
    if (kind === USER_DEFINED) return new TextEncoder().encode(text);
    return kind === NORMAL ? bytesOfText(text) : new Uint8Array(0);
  });
  const nameOf = (key: string): string => texts[idAt(fields, key) ?? -1] ?? '';
  return {
    pattern: patternOfPre(textAt(fields, 'tokenizer.ggml.pre')),
    vocabulary: packTokens(tokens),
    ...rankTokens(fields, texts, kinds, tokens),
    special,
    added,
    endIds: endIdsOf(fields, special),
    template: textAt(fields, 'tokenizer.chat_template'),
    bosToken: nameOf('tokenizer.ggml.bos_token_id'),
    eosToken: nameOf('tokenizer.ggml.eos_token_id'),
    addBos: fields['tokenizer.ggml.add_bos_token'] === true,
  };
}

/**
 * Ranks by the merge list, not by id: ids need not follow the order of the merges. Bytes come first,
 * and those the vocabulary lacks get a rank without an id, since the encoder must know all 256.
 */
function rankTokens(
  fields: GgufMetadata,
  texts: readonly string[],
  kinds: readonly number[],
  tokens: readonly Uint8Array[],
): Pick<VocabularySource, 'ranks' | 'idOfRank'> {
  const idOfText = new Map(texts.map((text, id) => [text, id]));
  const ranks: Uint8Array[] = [];
  const ids: number[] = [];
  const ranked = new Set<number>();
  const push = (id: number | undefined): void => {
    if (id === undefined || ranked.has(id) || kinds[id] !== NORMAL) return;
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

function endIdsOf(fields: GgufMetadata, special: Readonly<Record<string, number>>): number[] {
  const stated = ['eos', 'eot', 'eom'].map((name) =>
    idAt(fields, `tokenizer.ggml.${name}_token_id`),
  );
  const named = Object.entries(special).map(([text, id]) => (END_NAMES.has(text) ? id : null));
  return [...new Set([...stated, ...named])].filter((id) => id !== null);
}

/** Byte-level BPE writes each byte as one printable letter: itself where printable, else from U+0100 on. */
const LETTERS = byteLetters();
const BYTE_OF_LETTER = new Map(LETTERS.map((letter, byte) => [letter, byte]));

function letterOfByte(byte: number): string {
  return LETTERS[byte] ?? '';
}

function byteLetters(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCharCode(printable ? byte : next++);
  });
}

function bytesOfText(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const byte = BYTE_OF_LETTER.get(text.charAt(at));
    if (byte === undefined) throw new Error(`token '${text}' is not written in byte letters`);
    bytes[at] = byte;
  }
  return bytes;
}

function textAt(fields: GgufMetadata, key: string): string {
  const value = fields[key];
  if (typeof value !== 'string') throw new Error(`the GGUF file has no text in ${key}`);
  return value;
}

function listAt<Item>(fields: GgufMetadata, key: string): readonly Item[] {
  const value = fields[key];
  if (!Array.isArray(value)) throw new Error(`the GGUF file has no list in ${key}`);
  return value as Item[];
}

function idAt(fields: GgufMetadata, key: string): number | null {
  const value = fields[key];
  return typeof value === 'number' ? value : null;
}
