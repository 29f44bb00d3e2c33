/**
 * Owns the vocabularies of BERT: words in lower case without accents, each the longest tokens that it begins with.
 * It must never make a special token of its name.
 */
import { packTexts, packTokens } from '../shared/tokens.js';
import { flagAt, type GgufFacts } from './facts.js';
import type { IdList } from './pieces.js';
import { shownBytes, tokensOfText } from './sentence-piece.js';
import { SPACE_LETTER } from './spaces.js';
import { TokenTrie } from './trie.js';
import type { GgufVocabulary } from './vocabulary.js';

export function wordPieceVocabulary(facts: GgufFacts): GgufVocabulary {
  const trie = new TokenTrie(packTexts(tokensOfText(facts)));
  const lowers = flagAt(facts.fields, 'tokenizer.ggml.normalizer.lowercase') ?? true;
  const strips = flagAt(facts.fields, 'tokenizer.ggml.normalizer.strip_accents') ?? lowers;
  const { unknownId } = facts;
  return {
    facts,
    vocabulary: packTokens(shownBytes(facts)),
    rules: [lowers, strips],
    *encodePlain(text, out) {
      let left = STEP_LENGTH;
      for (const word of wordsOf(text, lowers, strips)) {
        encodeWord(word, trie, unknownId, out);
        left -= word.length;
        if (left > 0) continue;
        left = STEP_LENGTH;
        yield;
      }
    },
  };
}

/** Characters between two pauses. */
const STEP_LENGTH = 16_384;

const BLANK = /^\p{White_Space}$/u;
const DROPPED = /^[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd]$/u;
const ALONE = /^(?:\p{P}|[\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e])$/u;
const ACCENT = /^\p{M}$/u;
const WIDE = /[^\0-\x7f]/;

/** A sign and a Chinese character are words by themselves. */
function* wordsOf(text: string, lowers: boolean, strips: boolean): Generator<string, void> {
  let word = '';
  for (const character of strips && WIDE.test(text) ? text.normalize('NFD') : text) {
    const isBlank = BLANK.test(character);
    if (isBlank || isAlone(character)) {
      if (word !== '') yield word;
      word = '';
      if (!isBlank) yield character;
    } else if (!DROPPED.test(character) && !(strips && ACCENT.test(character))) {
      word += lowers ? lowerOf(character) : character;
    }
  }
  if (word !== '') yield word;
}

function lowerOf(character: string): string {
  const lower = character.toLowerCase();
  // One character stays one: the others are marks.
  return String.fromCodePoint(lower.codePointAt(0) ?? 0);
}

function isAlone(character: string): boolean {
  return ALONE.test(character) || isChinese(character.codePointAt(0) ?? 0);
}

/** The blocks that BERT's own reader takes for Chinese. */
const CHINESE = [
  [0x4e00, 0x9fff],
  [0x3400, 0x4dbf],
  [0x20000, 0x2a6df],
  [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf],
  [0xf900, 0xfaff],
  [0x2f800, 0x2fa1f],
] as const;

function isChinese(code: number): boolean {
  return code >= 0x3400 && CHINESE.some(([first, last]) => code >= first && code <= last);
}

const encoder = new TextEncoder();

/** A word of which a part is no token is unknown as a whole. */
function encodeWord(word: string, trie: TokenTrie, unknownId: number, out: IdList): void {
  const bytes = encoder.encode(SPACE_LETTER + word);
  const ids: number[] = [];
  for (let at = 0; at < bytes.length; ) {
    let id = -1;
    let end = at;
    let node = trie.root;
    for (let place = at; place < bytes.length; place += 1) {
      node = trie.child(node, bytes[place] ?? 0);
      if (node < 0) break;
      if (trie.idAt(node) < 0) continue;
      id = trie.idAt(node);
      end = place + 1;
    }
    if (id < 0) {
      if (unknownId >= 0) out.push(unknownId);
      return;
    }
    ids.push(id);
    at = end;
  }
  for (const id of ids) out.push(id);
}
