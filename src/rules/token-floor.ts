/**
 * Owns the lower bound on a text's tokens: a text that is too long even so is refused without encoding.
 * It must never exceed the true count: a vocabulary may drop bytes that it has no token for.
 */
import type { TokenBytes } from './detokenizer.js';
import type { PromptSegment } from './prompt.js';

export class TokenFloor {
  readonly #longest: number;
  /** Bytes with a token of their own, which encoding cannot drop. */
  readonly #kept = new Uint8Array(256);

  constructor({ bytes, offsets }: TokenBytes) {
    let longest = 1;
    for (let id = 0; id + 1 < offsets.length; id += 1) {
      const from = offsets[id] ?? 0;
      const length = (offsets[id + 1] ?? from) - from;
      if (length > longest) longest = length;
      if (length === 1) this.#kept[bytes[from] ?? 0] = 1;
    }
    this.#longest = longest;
  }

  /** Whether the segments certainly have at least so many tokens. False when only encoding can tell. */
  reaches(segments: readonly PromptSegment[], tokens: number): boolean {
    const sum = (of: (text: string) => number): number =>
      segments.reduce((total, part) => total + tokensOf(part, of), 0);
    // A UTF-16 unit has three bytes at most: a quick check that settles most prompts.
    if (sum(({ length }) => Math.ceil((length * 3) / this.#longest)) < tokens) return false;
    return sum((text) => Math.ceil(this.#keptBytes(text) / this.#longest)) >= tokens;
  }

  #keptBytes(text: string): number {
    let kept = 0;
    for (const byte of new TextEncoder().encode(text)) kept += this.#kept[byte] ?? 0;
    return kept;
  }
}

function tokensOf(part: PromptSegment, ofText: (text: string) => number): number {
  if ('text' in part) return ofText(part.text);
  return 'special' in part ? 1 : part.tokens;
}
