/**
 * Owns unpacking the text records of a Mobipocket book: bytes as they are, PalmDOC pairs, Huffman phrases.
 * It must never produce more bytes than its bound, however phrases refer to each other.
 */
import { refusal } from '../shared/refusal.js';

export type Unpack = (record: Buffer, bytesMax: number) => Buffer;

/** The extra data after the text of a record; its last bytes hold its length. */
export function withoutTrailing(record: Buffer, trailing: number): Buffer {
  let end = record.length;
  for (let bits = trailing >> 1; bits > 0; bits >>= 1) {
    if ((bits & 1) !== 0) end -= backwardNumber(record, end);
  }
  if ((trailing & 1) !== 0 && end > 0) end -= ((record[end - 1] ?? 0) & 3) + 1;
  return record.subarray(0, Math.max(end, 0));
}

function backwardNumber(record: Buffer, end: number): number {
  let value = 0;
  for (let step = 0; step < 4; step++) {
    const byte = record[end - 1 - step] ?? 0x80;
    value |= (byte & 0x7f) << (7 * step);
    if ((byte & 0x80) !== 0) break;
  }
  return value;
}

/** An output buffer with a bound. */
class Output {
  readonly #bytesMax: number;
  #bytes = Buffer.alloc(8192);
  #length = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#length;
  }

  put(byte: number): void {
    this.#grow(1);
    this.#bytes[this.#length++] = byte;
  }

  append(bytes: Buffer): void {
    this.#grow(bytes.length);
    bytes.copy(this.#bytes, this.#length);
    this.#length += bytes.length;
  }

  /** The copy may overlap its own output. */
  repeat(distance: number, count: number): void {
    if (distance < 1 || distance > this.#length) {
      throw refusal('damaged', 'it is damaged: its text cannot be unpacked');
    }
    for (let left = count; left > 0; left--) this.put(this.#bytes[this.#length - distance] ?? 0);
  }

  take(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(count: number): void {
    const length = this.#length + count;
    if (length > this.#bytesMax) {
      throw refusal(
        'bound',
        'it unpacks to more than it may: a bound of bytes or of their ratio (100 to 1) is reached',
      );
    }
    if (length <= this.#bytes.length) return;
    const larger = Buffer.alloc(Math.max(length, this.#bytes.length * 2));
    this.#bytes.copy(larger);
    this.#bytes = larger;
  }
}

export const unpackNothing: Unpack = (record, bytesMax) => {
  const output = new Output(bytesMax);
  output.append(record);
  return output.take();
};

export const unpackPalmDoc: Unpack = (record, bytesMax) => {
  const output = new Output(bytesMax);
  for (let at = 0; at < record.length; ) {
    const code = record[at++] ?? 0;
    if (code >= 0xc0) {
      output.put(0x20);
      output.put(code ^ 0x80);
    } else if (code >= 0x80) {
      const pair = (code << 8) | (record[at++] ?? 0);
      output.repeat((pair >> 3) & 0x7ff, (pair & 7) + 3);
    } else if (code >= 1 && code <= 8) {
      output.append(record.subarray(at, at + code));
      at += code;
    } else output.put(code);
  }
  return output.take();
};

interface Phrase {
  bytes: Buffer;
  /** False: the phrase's bytes are codes that must be decoded again. */
  plain: boolean;
}

interface CodeRange {
  readonly length: number;
  readonly terminal: boolean;
  readonly max: number;
}

/** Phrases may refer to phrases; real books nest them only a few levels deep. */
const PHRASE_DEPTH_MAX = 32;

/** @param tables the record of codes, then those of phrases. */
export function huffmanOf(tables: readonly Buffer[]): Unpack {
  const [codes, ...books] = tables;
  if (codes?.toString('latin1', 0, 4) !== 'HUFF') throw broken();
  const ranges = readRanges(codes);
  const { min, max } = readLimits(codes);
  const phrases = books.flatMap(readPhrases);

  function decode(input: Buffer, output: Output, depth: number): void {
    if (depth > PHRASE_DEPTH_MAX) throw broken();
    for (let bit = 0, bits = input.length * 8; bit < bits; ) {
      const code = window(input, bit);
      let {
        length,
        terminal,
        max: top,
      } = ranges[code >>> 24] ?? { length: 0, terminal: true, max: 0 };
      if (!terminal) {
        while (length < 32 && code < (min[length] ?? 0)) length += 1;
        top = max[length] ?? 0;
      }
      bit += length;
      if (length === 0 || bit > bits) return;
      const phrase = phrases[((top - code) / 2 ** (32 - length)) | 0];
      if (phrase === undefined) throw broken();
      if (!phrase.plain) expand(phrase, output, depth);
      else output.append(phrase.bytes);
    }
  }

  function expand(phrase: Phrase, output: Output, depth: number): void {
    const start = output.length;
    decode(phrase.bytes, output, depth + 1);
    phrase.bytes = Buffer.from(output.take().subarray(start));
    phrase.plain = true;
  }

  return (record, bytesMax) => {
    const output = new Output(bytesMax);
    decode(record, output, 0);
    return output.take();
  };
}

/** The next 32 bits; zeros after the end. */
function window(input: Buffer, bit: number): number {
  const at = bit >> 3;
  let value = 0;
  for (let step = 0; step < 5; step++) value = value * 256 + (input[at + step] ?? 0);
  return Math.floor(value / 2 ** (8 - (bit & 7))) % 2 ** 32;
}

function readRanges(codes: Buffer): CodeRange[] {
  const start = codes.readUInt32BE(8);
  return Array.from({ length: 256 }, (_, at) => {
    const value = codes.readUInt32BE(start + at * 4);
    const length = value & 0x1f;
    if (length === 0) throw broken();
    return {
      length,
      terminal: (value & 0x80) !== 0,
      max: ((value >>> 8) + 1) * 2 ** (32 - length) - 1,
    };
  });
}

function readLimits(codes: Buffer): { min: number[]; max: number[] } {
  const start = codes.readUInt32BE(12);
  const min = [0];
  const max = [0];
  for (let length = 1; length <= 32; length++) {
    const at = start + (length - 1) * 8;
    min.push(codes.readUInt32BE(at) * 2 ** (32 - length));
    max.push((codes.readUInt32BE(at + 4) + 1) * 2 ** (32 - length) - 1);
  }
  return { min, max };
}

function readPhrases(record: Buffer, index: number, books: readonly Buffer[]): Phrase[] {
  if (record.toString('latin1', 0, 4) !== 'CDIC') throw broken();
  const all = record.readUInt32BE(8);
  const each = 2 ** Math.min(record.readUInt32BE(12), 16);
  const count = Math.max(0, Math.min(each, all - each * index));
  if (index >= books.length) throw broken();
  return Array.from({ length: count }, (_, at) => {
    const start = 16 + record.readUInt16BE(16 + at * 2);
    const head = record.readUInt16BE(start);
    const bytes = record.subarray(start + 2, start + 2 + (head & 0x7fff));
    return { bytes, plain: (head & 0x8000) !== 0 };
  });
}

function broken(): Error {
  return refusal('damaged', 'it is damaged: its codes cannot be read');
}
