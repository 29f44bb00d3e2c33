/**
 * Owns the encoding of text with one vocabulary: WASM for ordinary pieces, the heap for long ones.
 * It must never let text turn into a special token, nor do more than O(n log n) work.
 */
import type { Tokenizer, TokenizerInfo } from 'preface/plugin';
import { alternation } from '../shared/alternation.js';
import { mergePiece, RankTable } from '../shared/merge.js';
import { NO_ID } from '../shared/tokens.js';
import { infoOf, type VocabularySource } from './source.js';
import { cutText } from './stretches.js';
import { openWasmEncoder, type WasmEncoder } from './wasm.js';

export class TiktokenTokenizer implements Tokenizer {
  readonly #wasm: WasmEncoder;
  readonly #info: TokenizerInfo;
  readonly #added: RegExp | null;
  #table: RankTable | null = null;

  constructor(readonly source: VocabularySource) {
    this.#wasm = openWasmEncoder(source.ranks, source.pattern.rust);
    this.#info = infoOf(source);
    this.#added = alternation([...source.added.keys()]);
  }

  info(): TokenizerInfo {
    return this.#info;
  }

  encode(text: string): Uint32Array {
    const steps = this.encodeInSteps(text);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  *encodeInSteps(text: string): Generator<void, Uint32Array> {
    const parts: Uint32Array[] = [];
    let from = 0;
    for (const found of this.#added ? text.matchAll(this.#added) : []) {
      yield* this.#encodePlain(text.slice(from, found.index), parts);
      parts.push(Uint32Array.of(this.source.added.get(found[0]) ?? NO_ID));
      from = found.index + found[0].length;
    }
    yield* this.#encodePlain(from === 0 ? text : text.slice(from), parts);
    return joinIds(parts);
  }

  close(): void {
    this.#wasm.free();
  }

  *#encodePlain(text: string, parts: Uint32Array[]): Generator<void, void> {
    if (text === '') return;
    for (const stretch of cutText(text, this.source.pattern)) {
      const ranks = stretch.isLong
        ? yield* this.#merge(stretch.text)
        : this.#wasm.encode(stretch.text);
      parts.push(idsOfRanks(ranks, this.source.idOfRank));
      yield;
    }
  }

  #merge(piece: string): Generator<void, Uint32Array> {
    this.#table ??= new RankTable(this.source.ranks);
    return mergePiece(new TextEncoder().encode(piece), this.#table);
  }
}

/** In place: the array is ours, and a copy of every answer would cost a tenth of the encoding. */
function idsOfRanks(ranks: Uint32Array, idOfRank: Uint32Array): Uint32Array {
  let count = 0;
  for (const rank of ranks) {
    const id = idOfRank[rank] ?? NO_ID;
    if (id !== NO_ID) ranks[count++] = id;
  }
  return count === ranks.length ? ranks : ranks.slice(0, count);
}

function joinIds(parts: readonly Uint32Array[]): Uint32Array {
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const ids = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return ids;
}
