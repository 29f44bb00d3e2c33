/**
 * Owns the vectors and scores of the echo engine: texts that share words are alike, so that a search can be tested.
 * It must never depend on anything but the ids it is given.
 */
import type { ModelKind, VectorFacts } from 'preface/plugin';

const DIMENSIONS = 64;
/** Of the bytes tokenizer: no text of a client has this id. */
const SEPARATOR = 257;

export const vectorFacts: VectorFacts = {
  dimensions: DIMENSIONS,
  shortens: true,
  before: [],
  after: [],
  pair: { type: 'ids', before: [], between: [SEPARATOR], after: [] },
  takesTexts: false,
};

export function echoVector(ids: Uint32Array, kind: ModelKind): Float32Array {
  return kind === 'rerank' ? Float32Array.of(scoreOf(ids)) : wordVector(ids);
}

/** Each word adds to three places, by its hash. */
function wordVector(ids: Uint32Array): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  for (const word of wordsOf(ids)) {
    for (let place = 0; place < 3; place += 1) {
      const hash = hashOf(`${place}${word}`);
      const at = hash % DIMENSIONS;
      vector[at] = (vector[at] ?? 0) + (hash & 0x1000 ? 1 : -1);
    }
  }
  // A text without a word has a direction, too.
  if (vector.every((number) => number === 0)) vector[0] = 1;
  return vector;
}

/** The share of the query's words that the document has. */
function scoreOf(ids: Uint32Array): number {
  const cut = ids.indexOf(SEPARATOR);
  const query = new Set(wordsOf(ids.subarray(0, cut)));
  const document = new Set(wordsOf(ids.subarray(cut + 1)));
  const shared = [...query].filter((word) => document.has(word));
  return query.size === 0 ? 0 : shared.length / query.size;
}

function wordsOf(ids: Uint32Array): string[] {
  const text = Buffer.from(ids.filter((id) => id < 256)).toString();
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
