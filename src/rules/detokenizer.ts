/**
 * Owns the way from ids back to text: whole characters only, whatever the borders of the tokens.
 * It must never show a special token, and never lose a byte: an incomplete character comes out at the end.
 */

/** The bytes of token `i` are `bytes[offsets[i] .. offsets[i + 1]]`; a special token has none. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  readonly offsets: Uint32Array;
}

/** One per choice: it remembers the bytes of a character that has begun. */
export class Detokenizer {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(readonly vocabulary: TokenBytes) {}

  /** The text that these ids complete. */
  push(ids: readonly number[]): string {
    return this.#decoder.decode(joinBytes(this.vocabulary, ids), { stream: true });
  }

  /** The rest: U+FFFD for an incomplete character. */
  end(): string {
    return this.#decoder.decode();
  }
}

/** Bytes of one token, as log-probabilities show them. An id outside the vocabulary has none. */
export function tokenBytes({ bytes, offsets }: TokenBytes, id: number): Uint8Array {
  return bytes.subarray(offsets[id] ?? bytes.length, offsets[id + 1] ?? bytes.length);
}

/** Text of one token by itself; a part of a character shows as U+FFFD. */
export function tokenText(vocabulary: TokenBytes, id: number): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(tokenBytes(vocabulary, id));
}

function joinBytes(vocabulary: TokenBytes, ids: readonly number[]): Uint8Array {
  const [only] = ids;
  if (only !== undefined && ids.length === 1) return tokenBytes(vocabulary, only);
  const { bytes, offsets } = vocabulary;
  const startOf = (id: number): number => offsets[id] ?? 0;
  const endOf = (id: number): number => offsets[id + 1] ?? startOf(id);
  const joined = new Uint8Array(ids.reduce((sum, id) => sum + endOf(id) - startOf(id), 0));
  let at = 0;
  for (const id of ids) {
    for (let from = startOf(id); from < endOf(id); from += 1) joined[at++] = bytes[from] ?? 0;
  }
  return joined;
}
