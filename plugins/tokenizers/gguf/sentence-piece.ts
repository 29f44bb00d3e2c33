/**
 * Owns the vocabularies of SentencePiece: tokens with scores, a letter that stands for a space, bytes where no token fits.
 * It must never make a special token or a byte's token of their written names.
 */
import { type PairOrder, RankTable } from '../shared/merge.js';
import { packTexts, packTokens } from '../shared/tokens.js';
import { flagAt, type GgufFacts, kinds, numbersAt } from './facts.js';
import { encoderOfPieces } from './piece-text.js';
import type { PieceTables } from './pieces.js';
import { cutAtSpaces, SPACE_LETTER, unitsBeforeSpace } from './spaces.js';
import type { GgufVocabulary } from './vocabulary.js';

export function sentencePieceVocabulary(facts: GgufFacts): GgufVocabulary {
  const tokens = new RankTable(packTexts(tokensOfText(facts)));
  const scores = scoresOf(facts);
  const before = unitsBeforeSpace(facts.texts);
  const beginsWithSpace = flagAt(facts.fields, 'tokenizer.ggml.add_space_prefix') ?? true;
  const tables: PieceTables = {
    tokens,
    order: new ScoreOrder(tokens, orderByScore(scores, facts.texts.length)),
    wide: true,
    idOfByte: idsOfBytes(facts),
    unknownId: facts.unknownId,
    isWhole: () => false,
  };
  const pieces = (text: string) => cutAtSpaces(text, before, false);
  return {
    facts,
    vocabulary: packTokens(shownBytes(facts)),
    rules: [new Uint8Array(scores.buffer), beginsWithSpace],
    encodePlain: encoderOfPieces({ tables, beginsWithSpace, escapesSpaces: true, pieces }),
  };
}

/** Highest score first; equal scores have one order. */
function orderByScore(scores: Float64Array, count: number): Int32Array {
  const ids = Array.from({ length: count }, (_, id) => id);
  ids.sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0));
  const orders = new Int32Array(count);
  let order = 0;
  for (const [at, id] of ids.entries()) {
    if (at > 0 && scores[ids[at - 1] ?? 0] !== scores[id]) order += 1;
    orders[id] = order;
  }
  return orders;
}

class ScoreOrder implements PairOrder {
  constructor(
    readonly tokens: RankTable,
    readonly orders: Int32Array,
  ) {}

  orderOf(bytes: Uint8Array, start: number, _middle: number, end: number): number {
    const id = this.tokens.find(bytes, start, end);
    return id < 0 ? -1 : (this.orders[id] ?? -1);
  }
}

const NO_BYTES = new Uint8Array(0);
const encoder = new TextEncoder();

/** As they stand in text; special tokens and bytes' names are no text. */
export function tokensOfText({ texts, kinds: kindOf }: GgufFacts): string[] {
  return texts.map((text, id) => {
    const kind = kindOf[id];
    const isText = kind === kinds.normal || kind === kinds.userDefined || kind === kinds.unused;
    return isText ? text : '';
  });
}

export function scoresOf({ fields, texts }: GgufFacts): Float64Array {
  const stated = numbersAt(fields, 'tokenizer.ggml.scores') ?? [];
  return Float64Array.from(texts, (_, id) => stated[id] ?? 0);
}

/** As an answer shows them. */
export function shownBytes({ texts, kinds: kindOf }: GgufFacts): Uint8Array[] {
  return texts.map((text, id) => {
    const kind = kindOf[id];
    if (kind === kinds.normal) return encoder.encode(text.replaceAll(SPACE_LETTER, ' '));
    if (kind === kinds.userDefined) return encoder.encode(text);
    return kind === kinds.byte ? Uint8Array.of(byteNamed(text)) : NO_BYTES;
  });
}

const BYTE_NAME = /^<0x([0-9A-Fa-f]{2})>$/;

function byteNamed(text: string): number {
  const digits = BYTE_NAME.exec(text)?.[1];
  if (digits === undefined) throw new Error(`token '${text}' is called a byte and names none`);
  return Number.parseInt(digits, 16);
}

export function idsOfBytes({ texts, kinds: kindOf }: GgufFacts): Int32Array {
  const ids = new Int32Array(256).fill(-1);
  for (const [id, text] of texts.entries()) {
    const digits = kindOf[id] === kinds.byte ? BYTE_NAME.exec(text)?.[1] : undefined;
    if (digits !== undefined) ids[Number.parseInt(digits, 16)] = id;
  }
  return ids;
}
