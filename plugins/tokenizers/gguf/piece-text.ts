/**
 * Owns the encoding of plain text that is cut into pieces, each of which becomes ids by itself.
 * It must never hold a long text without a pause.
 */
import { type IdList, PieceEncoder, type PieceTables } from './pieces.js';
import { SPACE_LETTER } from './spaces.js';

/** How text becomes pieces, and what they are made from. */
export interface PieceRules {
  readonly tables: PieceTables;
  /** Each text between special and added tokens begins with a space. */
  readonly beginsWithSpace: boolean;
  /** A space is written as its letter in tokens. */
  readonly escapesSpaces: boolean;
  readonly pieces: (text: string) => Iterable<string>;
}

/** Pieces between two pauses. */
const STEP_PIECES = 4096;

export function encoderOfPieces({ tables, beginsWithSpace, escapesSpaces, pieces }: PieceRules) {
  const encoder = new PieceEncoder(tables);
  const bytes = new PieceBytes(escapesSpaces);
  return function* encodePlain(text: string, out: IdList): Generator<void, void> {
    let count = 0;
    for (const piece of pieces(beginsWithSpace ? ` ${text}` : text)) {
      yield* encoder.encode(bytes.of(piece), out);
      count += 1;
      if (count % STEP_PIECES === 0) yield;
    }
  };
}

const LETTER_BYTES = new TextEncoder().encode(SPACE_LETTER);

/** Writes short pieces into one memory, since a call of the encoder costs more than their few bytes. */
class PieceBytes {
  readonly #short = new Uint8Array(3 * 64);
  readonly #encoder = new TextEncoder();

  constructor(readonly escapesSpaces: boolean) {}

  /** Good until the next call. */
  of(piece: string): Uint8Array {
    if (piece.length <= 64) {
      const length = this.#writeShort(piece);
      if (length >= 0) return this.#short.subarray(0, length);
    }
    return this.#encoder.encode(this.escapesSpaces ? piece.replaceAll(' ', SPACE_LETTER) : piece);
  }

  /** -1 where there are surrogates. */
  #writeShort(piece: string): number {
    const bytes = this.#short;
    let length = 0;
    for (let at = 0; at < piece.length; at += 1) {
      const code = piece.charCodeAt(at);
      if (code === 0x20 && this.escapesSpaces) {
        bytes.set(LETTER_BYTES, length);
        length += LETTER_BYTES.length;
      } else if (code < 0x80) bytes[length++] = code;
      else if (code < 0x8_00) {
        bytes[length++] = 0xc0 | (code >> 6);
        bytes[length++] = 0x80 | (code & 0x3f);
      } else if (code >= 0xd8_00 && code <= 0xdf_ff) return -1;
      else {
        bytes[length++] = 0xe0 | (code >> 12);
        bytes[length++] = 0x80 | ((code >> 6) & 0x3f);
        bytes[length++] = 0x80 | (code & 0x3f);
      }
    }
    return length;
  }
}
