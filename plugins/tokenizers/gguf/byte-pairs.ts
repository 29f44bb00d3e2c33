/**
 * Owns the vocabularies of byte-pair encoding: tokens, and the list of pairs that are joined, first ones first.
 * It must never join two parts whose very pair is not in the list.
 */
import { bytesOfLetters, letterOfByte } from '../shared/byte-letters.js';
import { RankTable } from '../shared/merge.js';
import { packTexts, packTokens } from '../shared/tokens.js';
import { tokenBytes } from '../tiktoken/gguf.js';
import { type GgufFacts, kinds, listAt } from './facts.js';
import { encoderOfPieces } from './piece-text.js';
import type { PieceTables } from './pieces.js';
import { preTokenizerOf } from './pre-tokenizers.js';
import { idsOfBytes, shownBytes, tokensOfText } from './sentence-piece.js';
import { cutAtSpaces, unitsBeforeSpace } from './spaces.js';
import { splitText } from './splitters.js';
import type { GgufVocabulary } from './vocabulary.js';

/** Tokens are bytes in letters; a pattern cuts the text. @param pre `tokenizer.ggml.pre`. */
export function bytePairVocabulary(facts: GgufFacts, pre: string): GgufVocabulary {
  const { splitters, takesWhole } = preTokenizerOf(pre);
  const order = letterPairs(mergesOf(facts));
  const ofText = facts.texts.map((text, id) =>
    facts.kinds[id] === kinds.normal ? (bytesOfLetters(text) ?? NO_BYTES) : NO_BYTES,
  );
  const tables: PieceTables = {
    tokens: new RankTable(packTokens(ofText)),
    order,
    wide: false,
    idOfByte: idsOfLetters(facts),
    unknownId: -1,
    isWhole: () => takesWhole,
  };
  const pieces = (text: string) => splitText(text, splitters);
  return {
    facts,
    vocabulary: packTokens(tokenBytes(facts)),
    rules: [pre, ...rulesOf(order)],
    encodePlain: encoderOfPieces({ tables, ...AS_WRITTEN, pieces }),
  };
}

/** Tokens are text, as those of SentencePiece: Gemma 4 and its kin. */
export function spacedPairVocabulary(facts: GgufFacts, takesLines: boolean): GgufVocabulary {
  const merges = mergesOf(facts);
  const joined = merges.map(([left, right]) => left + right);
  const splits = Uint16Array.from(merges, ([left]) => Buffer.byteLength(left));
  const order = new RankTable(packTexts(joined), splits);
  const before = unitsBeforeSpace(joined);
  const tables: PieceTables = {
    tokens: new RankTable(packTexts(tokensOfText(facts))),
    order,
    wide: true,
    idOfByte: idsOfBytes(facts),
    unknownId: -1,
    isWhole: (piece) => takesLines && piece[0] === NEWLINE,
  };
  const pieces = (text: string) => cutAtSpaces(text, before, true);
  return {
    facts,
    vocabulary: packTokens(shownBytes(facts)),
    rules: [takesLines, ...rulesOf(order)],
    encodePlain: encoderOfPieces({ tables, ...AS_WRITTEN, escapesSpaces: true, pieces }),
  };
}

const AS_WRITTEN = { beginsWithSpace: false, escapesSpaces: false };
const NEWLINE = 0x0a;
const NO_BYTES = new Uint8Array(0);

type Merge = readonly [left: string, right: string];

/** A part may begin with a space, but is never empty. */
function mergesOf({ fields }: GgufFacts): Merge[] {
  return listAt<string>(fields, 'tokenizer.ggml.merges').map((merge) => {
    const at = merge.indexOf(' ', 1);
    return at < 0 ? ['', ''] : [merge.slice(0, at), merge.slice(at + 1)];
  });
}

/** A letter is a byte. */
function letterPairs(merges: readonly Merge[]): RankTable {
  const joined = merges.map(([left, right]) => bytesOfLetters(left + right) ?? NO_BYTES);
  return new RankTable(
    packTokens(joined),
    Uint16Array.from(merges, ([left]) => left.length),
  );
}

function rulesOf({ ranks, splits }: RankTable): Uint8Array[] {
  const { buffer } = splits ?? new Uint16Array(0);
  return [ranks.bytes, new Uint8Array(ranks.offsets.buffer), new Uint8Array(buffer)];
}

function idsOfLetters({ texts, kinds: kindOf }: GgufFacts): Int32Array {
  const ids = new Int32Array(256).fill(-1);
  const byteOf = new Map(Array.from({ length: 256 }, (_, byte) => [letterOfByte(byte), byte]));
  for (const [id, text] of texts.entries()) {
    const byte = kindOf[id] === kinds.normal ? byteOf.get(text) : undefined;
    if (byte !== undefined) ids[byte] = id;
  }
  return ids;
}
