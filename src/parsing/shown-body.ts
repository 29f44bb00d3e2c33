/**
 * Owns the way from the stored form of a cache's messages and tools to the JSON that is answered, byte by byte.
 * It must never make texts of them: those lie on the heap of their thread until a garbage collection, several times over.
 */
import { DamagedRecord, recordText } from '../codec.js';

const [BACKSLASH, QUOTE, COMMA] = [0x5c, 0x22, 0x2c];
const MESSAGES = Buffer.from('"messages":[');
const TOOLS = Buffer.from('],"tools":[');
const END = Buffer.from(']');
/** What the stored text has around what is answered. */
const BRACES = 1;
/** The letter of an escape, and the byte that it stands for; `u` is followed by four digits. */
const ESCAPES: ReadonlyMap<number, number> = new Map(
  [...'"\\/bfnrt'].map((letter, at) => [letter.charCodeAt(0), '"\\/\b\f\n\r\t'.charCodeAt(at)]),
);
const UNICODE = 'u'.charCodeAt(0);

/**
 * Writes `"messages":[…],"tools":[…]`: the stored texts are JSON themselves, and go out as they are.
 * @param into has as much room as the stored form. @returns where it ends. @throws DamagedRecord
 */
export function writeShownBody(stored: Uint8Array, into: Uint8Array, at: number): number {
  return new Writer(recordText(stored), into, at).write();
}

class Writer {
  #from = BRACES;

  constructor(
    readonly json: Buffer,
    readonly into: Uint8Array,
    private at: number,
  ) {}

  write(): number {
    this.#constant(MESSAGES);
    this.#texts();
    this.#constant(TOOLS);
    this.#texts();
    this.#constant(END);
    if (this.#from + BRACES !== this.json.length) throw new DamagedRecord();
    return this.at;
  }

  #constant(expected: Buffer): void {
    const end = this.#from + expected.length;
    if (!this.json.subarray(this.#from, end).equals(expected)) throw new DamagedRecord();
    this.into.set(expected, this.at);
    this.at += expected.length;
    this.#from = end;
  }

  /** Up to the end of their array. */
  #texts(): void {
    while (this.json[this.#from] === QUOTE) {
      this.#text();
      if (this.json[this.#from] !== COMMA) return;
      this.into[this.at++] = COMMA;
      this.#from += 1;
    }
  }

  /** Without the quotes around it and the escapes within. A loop of its own: it sees each byte. */
  #text(): void {
    const { json, into } = this;
    let { at } = this;
    let from = this.#from + 1;
    for (let byte = json[from]; byte !== QUOTE; byte = json[from]) {
      if (byte === undefined) throw new DamagedRecord();
      if (byte === BACKSLASH) {
        const letter = json[from + 1] ?? 0;
        if (letter === UNICODE) {
          at += this.#unit(from + 2, at);
          from += 6;
          continue;
        }
        byte = ESCAPES.get(letter) ?? letter;
        from += 1;
      }
      into[at++] = byte;
      from += 1;
    }
    this.at = at;
    this.#from = from + 1;
  }

  /** @returns how many bytes it has. */
  #unit(from: number, at: number): number {
    const digits = this.json.toString('latin1', from, from + 4);
    const bytes = Buffer.from(String.fromCharCode(Number.parseInt(digits, 16)));
    this.into.set(bytes, at);
    return bytes.length;
  }
}
