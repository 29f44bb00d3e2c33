/**
 * Owns the encoding of text with a vocabulary of a GGUF file: added tokens first, then pieces, then their ids.
 * It must never let text turn into a special token, nor do more than O(n log n) work, nor much of it without a pause.
 */
import type { Tokenizer, TokenizerInfo } from 'preface/plugin';
import { alternation } from '../shared/alternation.js';
import { IdList } from './pieces.js';
import { type GgufVocabulary, infoOf } from './vocabulary.js';

export class GgufTokenizer implements Tokenizer {
  readonly #info: TokenizerInfo;
  readonly #idOfAdded: ReadonlyMap<string, number>;
  readonly #added: RegExp | null;
  readonly #encodePlain: GgufVocabulary['encodePlain'];

  /** What the file says besides is let go: lists of merges have half a million texts. */
  constructor(source: GgufVocabulary) {
    this.#info = infoOf(source);
    this.#idOfAdded = source.facts.added;
    this.#added = alternation([...source.facts.added.keys()]);
    this.#encodePlain = source.encodePlain;
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
    const out = new IdList();
    let from = 0;
    for (const found of this.#added ? text.matchAll(this.#added) : []) {
      if (found.index > from) yield* this.#encodePlain(text.slice(from, found.index), out);
      out.push(this.#idOfAdded.get(found[0]) ?? 0);
      from = found.index + found[0].length;
    }
    if (text.length > from) yield* this.#encodePlain(from === 0 ? text : text.slice(from), out);
    return out.take();
  }

  close(): void {
    // Memory of the thread holds all of it.
  }
}
