/**
 * Owns what every kind of vocabulary in a GGUF file says alike: its tokens, which of them are special, where a turn ends.
 * It must never guess: what it does not know it names in an error.
 */
import type { GgufMetadata } from '../../gguf.js';

/** Kinds of `tokenizer.ggml.token_type`. */
export const kinds = {
  normal: 1,
  unknown: 2,
  control: 3,
  userDefined: 4,
  unused: 5,
  byte: 6,
} as const;

export interface GgufFacts {
  readonly fields: GgufMetadata;
  /** `tokenizer.ggml.model`: the kind of vocabulary. */
  readonly model: string;
  /** Text of each id, as the file writes it. */
  readonly texts: readonly string[];
  readonly kinds: readonly number[];
  /** Only templates may produce them. */
  readonly special: Readonly<Record<string, number>>;
  /** Added tokens that any text may produce: they are looked for before anything else. */
  readonly added: ReadonlyMap<string, number>;
  readonly endIds: readonly number[];
  readonly template: string;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly addBos: boolean;
  /** Stands for what the vocabulary has no token for; -1: there is none. */
  readonly unknownId: number;
}

/** Tokens that end a turn, by name, for files that state only one of theirs. */
const END_NAMES = new Set([
  '<|endoftext|>',
  '<|end_of_text|>',
  '<|im_end|>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|end|>',
  '<|return|>',
  '<|call|>',
  '<end_of_turn>',
  '<end_of_utterance>',
  '<turn|>',
  '<eos>',
  '<EOT>',
  '</s>',
  '[EOS]',
  '[EOT]',
  '<\uff5cend\u2581of\u2581sentence\uff5c>',
]);

/** Marks of turns that some files call tokens of any text: a text that could write them could speak for another role. */
const TURN_MARK =
  /^(?:<[|\uff5c].*\p{L}.*[|\uff5c]>|<(?:start|end)_of_\w+>|<\|?turn\|?>|<(?:bos|eos|pad)>)$/su;

/** Ids that a file of the kind need not name. */
const USUAL_IDS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  llama: { bos: 1, eos: 2, unknown: 0 },
  bert: { bos: 101, unknown: 100 },
  t5: { eos: 1, unknown: 2 },
};

export function readFacts(fields: GgufMetadata, addsBos: boolean): GgufFacts {
  const texts = listAt<string>(fields, 'tokenizer.ggml.tokens');
  const stated = numbersAt(fields, 'tokenizer.ggml.token_type') ?? [];
  const model = textAt(fields, 'tokenizer.ggml.model');
  const idOf = (name: string) =>
    idAt(fields, `tokenizer.ggml.${name}_token_id`) ?? USUAL_IDS[model]?.[name] ?? -1;
  const corrected = texts.map((text, id) => kindOf(text, stated[id] ?? kinds.normal));
  controlsEnd(texts, corrected);
  const special: Record<string, number> = {};
  const added = new Map<string, number>();
  for (const [id, text] of texts.entries()) {
    const kind = corrected[id];
    if (kind === kinds.control || kind === kinds.unknown) special[text] = id;
    if (kind === kinds.userDefined && text !== '') added.set(text, id);
  }
  return {
    fields,
    model,
    texts,
    kinds: corrected,
    special,
    added,
    endIds: endIdsOf(special, [idOf('eos'), idOf('eot'), idOf('eom')]),
    template: templateOf(fields),
    bosToken: texts[idOf('bos')] ?? '',
    eosToken: texts[idOf('eos')] ?? '',
    addBos: flagAt(fields, 'tokenizer.ggml.add_bos_token') ?? addsBos,
    unknownId: idOf('unknown'),
  };
}

function kindOf(text: string, kind: number): number {
  return kind === kinds.userDefined && TURN_MARK.test(text) ? kinds.control : kind;
}

/** `</s>` is a mark of HTML where `<s>` is one. */
function controlsEnd(texts: readonly string[], kindOf: number[]): void {
  const [begin, end] = [texts.indexOf('<s>'), texts.indexOf('</s>')];
  if (kindOf[begin] === kinds.control && kindOf[end] === kinds.userDefined)
    kindOf[end] = kinds.control;
}

/** A vocabulary with `<|return|>` and `<|call|>` ends its turns there, and each of its messages by `<|end|>`. */
function endIdsOf(special: Readonly<Record<string, number>>, stated: readonly number[]): number[] {
  const hasMessages = '<|return|>' in special && '<|call|>' in special;
  const named = Object.entries(special)
    .filter(([text]) => END_NAMES.has(text) && !(hasMessages && text === '<|end|>'))
    .map(([, id]) => id);
  return [...new Set([...stated, ...named])].filter((id) => id >= 0);
}

/** Neither a base model has one, which was not trained to answer, nor one that makes vectors. */
function templateOf(fields: GgufMetadata): string {
  const template = fields['tokenizer.chat_template'];
  return typeof template === 'string' ? template : '';
}

export function textAt(fields: GgufMetadata, key: string): string {
  const value = fields[key];
  if (typeof value !== 'string') throw new Error(`the GGUF file has no text in ${key}`);
  return value;
}

export function listAt<Item>(fields: GgufMetadata, key: string): readonly Item[] {
  const value = fields[key];
  if (!Array.isArray(value)) throw new Error(`the GGUF file has no list in ${key}`);
  return value as Item[];
}

export function numbersAt(fields: GgufMetadata, key: string): readonly number[] | null {
  const value = fields[key];
  return Array.isArray(value) ? (value as number[]) : null;
}

export function flagAt(fields: GgufMetadata, key: string): boolean | null {
  const value = fields[key];
  return typeof value === 'boolean' ? value : null;
}

function idAt(fields: GgufMetadata, key: string): number | null {
  const value = fields[key];
  return typeof value === 'number' ? value : null;
}
