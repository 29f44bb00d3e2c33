/**
 * Owns the unigram vocabularies of SentencePiece (T5, XLM-R): of all ways to cut a text the one with the best score.
 * It must never make a special token of its name.
 */
import { packTexts, packTokens } from '../shared/tokens.js';
import { CharacterMap } from './character-map.js';
import { flagAt, type GgufFacts, kinds, numbersAt } from './facts.js';
import type { IdList } from './pieces.js';
import { scoresOf, shownBytes, tokensOfText } from './sentence-piece.js';
import { cutAtSpaces, SPACE_LETTER, unitsBeforeSpace } from './spaces.js';
import { TokenTrie } from './trie.js';
import type { GgufVocabulary } from './vocabulary.js';

/** How much worse than the worst token a character without one is. */
const UNKNOWN_PENALTY = 10;

export function unigramVocabulary(facts: GgufFacts): GgufVocabulary {
  const { fields, unknownId } = facts;
  const stated = scoresOf(facts);
  const scores = stated.map((score, id) => (facts.kinds[id] === kinds.userDefined ? 0 : score));
  const normal = stated.filter((_, id) => facts.kinds[id] === kinds.normal);
  const worst = normal.reduce((least, score) => Math.min(least, score), 0);
  const lattice = new Lattice(new TokenTrie(packTexts(tokensOfText(facts))), scores, {
    id: unknownId,
    score: Math.fround(worst - UNKNOWN_PENALTY),
  });
  const map = new CharacterMap(numbersAt(fields, 'tokenizer.ggml.precompiled_charsmap') ?? []);
  const begins = flagAt(fields, 'tokenizer.ggml.add_space_prefix') ?? false;
  const joins = flagAt(fields, 'tokenizer.ggml.remove_extra_whitespaces') ?? false;
  const before = unitsBeforeSpace(facts.texts);
  return {
    facts,
    vocabulary: packTokens(shownBytes(facts)),
    rules: [new Uint8Array(stated.buffer), map.entries, begins, joins],
    *encodePlain(text, out) {
      const plain = spaced(yield* map.mapped(text), begins, joins);
      let wasUnknown = false;
      for (const piece of cutAtSpaces(plain, before, false))
        wasUnknown = yield* lattice.encode(piece, wasUnknown, out);
    },
  };
}

/** Spaces by their letter: one before the text where the vocabulary wants it, one of each run where it joins them. */
function spaced(text: string, begins: boolean, joins: boolean): string {
  if (joins) {
    const joined = text.replace(/^ +| +$/g, '').replace(/ +/g, SPACE_LETTER);
    return joined === '' ? '' : SPACE_LETTER + joined;
  }
  const letters = text.replaceAll(' ', SPACE_LETTER);
  const first = /[^ ]/.exec(text)?.index ?? -1;
  if (!begins || first < 0) return letters;
  return `${letters.slice(0, first)}${SPACE_LETTER}${letters.slice(first)}`;
}

interface Unknown {
  readonly id: number;
  readonly score: number;
}

const encoder = new TextEncoder();
/** Bytes between two pauses. */
const STEP_BYTES = 16_384;

/** The best way to each byte of a piece, and the token that it ends with. */
class Lattice {
  constructor(
    readonly trie: TokenTrie,
    readonly scores: Float64Array,
    readonly unknown: Unknown,
  ) {}

  /** Neighbours that are unknown are one. @returns whether the last one is. */
  *encode(piece: string, wasUnknown: boolean, out: IdList): Generator<void, boolean> {
    const bytes = encoder.encode(piece);
    const { length } = bytes;
    const best = new Float64Array(length + 1).fill(-Number.MAX_VALUE);
    const last = new Int32Array(length + 1).fill(this.unknown.id);
    const from = new Int32Array(length + 1);
    best[0] = 0;
    for (let at = 0; at < length; ) {
      const next = at + Math.min(length - at, sizeOf(bytes[at] ?? 0));
      this.#extend(bytes, at, next, { best, last, from });
      if (Math.floor(at / STEP_BYTES) !== Math.floor(next / STEP_BYTES)) yield;
      at = next;
    }
    return this.#push(last, from, wasUnknown, out);
  }

  #extend(bytes: Uint8Array, at: number, next: number, { best, last, from }: Ways): void {
    const here = best[at] ?? 0;
    const offer = (end: number, id: number, score: number) => {
      if (here + score <= (best[end] ?? 0)) return;
      best[end] = here + score;
      last[end] = id;
      from[end] = at;
    };
    let node = this.trie.root;
    let isKnown = false;
    for (let end = at + 1; end <= bytes.length; end += 1) {
      node = this.trie.child(node, bytes[end - 1] ?? 0);
      if (node < 0) break;
      const id = this.trie.idAt(node);
      if (id < 0) continue;
      isKnown ||= end === next;
      offer(end, id, this.scores[id] ?? 0);
    }
    if (!isKnown) offer(next, this.unknown.id, this.unknown.score);
  }

  #push(last: Int32Array, from: Int32Array, before: boolean, out: IdList): boolean {
    const ids: number[] = [];
    for (let end = last.length - 1; end > 0; end = from[end] ?? 0) ids.push(last[end] ?? 0);
    let wasUnknown = before;
    for (const id of ids.reverse()) {
      const isUnknown = id === this.unknown.id;
      if (!(isUnknown && wasUnknown) && id >= 0) out.push(id);
      wasUnknown = isUnknown;
    }
    return wasUnknown;
  }
}

interface Ways {
  readonly best: Float64Array;
  readonly last: Int32Array;
  readonly from: Int32Array;
}

/** Bytes of a character, by its first one. */
function sizeOf(byte: number): number {
  if (byte < 0xc0) return 1;
  if (byte < 0xe0) return 2;
  return byte < 0xf0 ? 3 : 4;
}
