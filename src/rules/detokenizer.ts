/**
 * Owns the way from ids back to text: whole characters only, whatever the borders of the tokens.
 * It must never show a special token, and never lose a byte: an incomplete character comes out at the end.
 */
import { isAscii } from 'node:buffer';

/** The bytes of token `i` are `bytes[offsets[i] .. offsets[i + 1]]`; a special token has none. */
export interface TokenBytes {
  readonly bytes: Uint8Array;
  readonly offsets: Uint32Array;
}

const NONE: ReadonlyMap<number, string> = new Map();
const ASCII_MAX = 0x7f;

/** One per choice: it remembers the bytes of a character that has begun. */
export class Detokenizer {
  /** Made for the first text beyond ASCII: its making costs more than a short answer. */
  #decoder: InstanceType<typeof TextDecoder> | null = null;
  /** A character may have begun. */
  #isInside = false;

  /** @param shown texts of special tokens that are to be seen, by their ids. */
  constructor(
    readonly vocabulary: TokenBytes,
    readonly shown: ReadonlyMap<number, string> = NONE,
  ) {}

  /** The text that these ids complete. */
  push(ids: readonly number[]): string {
    if (this.shown.size > 0 && ids.some((id) => this.shown.has(id))) return this.#withShown(ids);
    return this.#textOf(joinBytes(this.vocabulary, ids));
  }

  #textOf(bytes: Buffer): string {
    if (bytes.length === 0) return '';
    const last = bytes[bytes.length - 1] ?? 0;
    if (!this.#isInside && isAscii(bytes)) return bytes.toString('latin1');
    this.#isInside = last > ASCII_MAX;
    this.#decoder ??= new TextDecoder('utf-8', { ignoreBOM: true });
    return this.#decoder.decode(bytes, { stream: true });
  }

  #withShown(ids: readonly number[]): string {
    const bytes = ids.map((id) => {
      const text = this.shown.get(id);
      return text === undefined ? tokenBytes(this.vocabulary, id) : Buffer.from(text);
    });
    return this.#textOf(Buffer.concat(bytes));
  }

  /** The rest: U+FFFD for an incomplete character. */
  end(): string {
    return this.#decoder?.decode() ?? '';
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

function joinBytes({ bytes, offsets }: TokenBytes, ids: readonly number[]): Buffer {
  const startOf = (id: number): number => offsets[id] ?? 0;
  const endOf = (id: number): number => offsets[id + 1] ?? startOf(id);
  const joined = Buffer.allocUnsafe(ids.reduce((sum, id) => sum + endOf(id) - startOf(id), 0));
  let at = 0;
  for (const id of ids) {
    for (let from = startOf(id); from < endOf(id); from += 1) joined[at++] = bytes[from] ?? 0;
  }
  return joined;
}
