/**
 * Owns the bytes of a store key: their byte order is the order that the contract promises.
 * It must never map two keys to the same bytes. Both stores use it, so they cannot disagree.
 */
import { limits } from '../limits/index.js';
import type { StoreKey, StoreRange } from './store.js';

const NUMBER = 0x10;
const STRING = 0x20;
/** Ends a text. It sorts before every byte that a longer text may have there. */
const TERMINATOR = 0x00;
/** Follows a zero byte inside a text. It is above the first byte of every element. */
const ESCAPED = 0xff;
const ABOVE_ELEMENTS = 0xff;

const LONE_SURROGATE = /\p{Surrogate}/u;
const NUMBER_BYTES = 9;

/** @throws Error for a key that is empty or too long, NaN, an infinite number, and a lone surrogate. */
export function keyBytes(key: StoreKey): Buffer {
  if (key.length === 0) throw new Error('a store key must not be empty');
  return elementBytes(key);
}

export interface RangeBounds {
  /** Included unless `startExcluded`. */
  readonly start: Buffer;
  readonly startExcluded: boolean;
  /** Never included. */
  readonly end: Buffer;
}

export function rangeBounds(range: StoreRange): RangeBounds {
  const prefix = elementBytes(range.prefix);
  const last = Buffer.concat([prefix, Buffer.of(ABOVE_ELEMENTS)]);
  const first = prefix.length > 0 ? prefix : Buffer.of(NUMBER);
  const after = range.after ? keyBytes(range.after) : null;
  const before = range.before ? keyBytes(range.before) : null;
  const startExcluded = after !== null && after.compare(first) >= 0;
  return {
    start: startExcluded ? after : first,
    startExcluded,
    end: before !== null && before.compare(last) < 0 ? before : last,
  };
}

export function bytesKey(bytes: Uint8Array): StoreKey {
  const source = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const key: (string | number)[] = [];
  let at = 0;
  while (at < source.length) {
    if (source[at] === NUMBER) {
      key.push(readNumber(source, at + 1));
      at += NUMBER_BYTES;
    } else {
      const end = textEnd(source, at + 1);
      key.push(readText(source, at + 1, end));
      at = end + 1;
    }
  }
  return key;
}

function elementBytes(key: StoreKey): Buffer {
  const texts = key.map((element) => sizedElement(element));
  const length = texts.reduce((sum, { size }) => sum + size, 0);
  if (length > limits.storeKeyBytesMax) {
    throw new Error(
      `a store key has ${length} bytes, at most ${limits.storeKeyBytesMax} are allowed`,
    );
  }
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (const { element, size } of texts) {
    if (typeof element === 'number') writeNumber(bytes, element, at);
    else writeText(bytes, element, at, size);
    at += size;
  }
  return bytes;
}

interface SizedElement {
  readonly element: string | number;
  readonly size: number;
}

function sizedElement(element: string | number): SizedElement {
  if (typeof element === 'number') {
    if (!Number.isFinite(element)) {
      throw new Error(`a store key cannot carry ${element}`);
    }
    return { element, size: NUMBER_BYTES };
  }
  if (LONE_SURROGATE.test(element)) {
    throw new Error('a store key cannot carry a lone surrogate');
  }
  // Tag, text with an extra byte after each zero byte, terminator.
  const zeros = element.includes('\0') ? element.split('\0').length - 1 : 0;
  return { element, size: Buffer.byteLength(element) + zeros + 2 };
}

/** IEEE 754, so changed that byte order is number order: positives get the sign bit, negatives all bits inverted. */
function writeNumber(bytes: Buffer, value: number, at: number): void {
  bytes[at] = NUMBER;
  bytes.writeDoubleBE(value === 0 ? 0 : value, at + 1);
  turnNumber(bytes, at + 1, value < 0);
}

function readNumber(bytes: Buffer, at: number): number {
  const copy = Buffer.from(bytes.subarray(at, at + 8));
  turnNumber(copy, 0, copy.readUInt8(0) < 0x80);
  return copy.readDoubleBE(0);
}

function turnNumber(bytes: Buffer, at: number, negative: boolean): void {
  const count = negative ? 8 : 1;
  const mask = negative ? 0xff : 0x80;
  for (let i = at; i < at + count; i++) {
    bytes.writeUInt8(bytes.readUInt8(i) ^ mask, i);
  }
}

function writeText(bytes: Buffer, text: string, at: number, size: number): void {
  bytes[at] = STRING;
  bytes[at + size - 1] = TERMINATOR;
  if (text.includes('\0')) writeZeros(bytes, text, at + 1);
  else bytes.write(text, at + 1);
}

function writeZeros(bytes: Buffer, text: string, start: number): void {
  let end = start;
  for (const [i, part] of text.split('\0').entries()) {
    if (i > 0) {
      bytes[end++] = TERMINATOR;
      bytes[end++] = ESCAPED;
    }
    end += bytes.write(part, end);
  }
}

function textEnd(bytes: Buffer, start: number): number {
  let end = bytes.indexOf(TERMINATOR, start);
  while (end >= 0 && bytes[end + 1] === ESCAPED) {
    end = bytes.indexOf(TERMINATOR, end + 2);
  }
  if (end < 0) throw new Error('a store key is damaged');
  return end;
}

function readText(bytes: Buffer, start: number, end: number): string {
  const parts: string[] = [];
  let from = start;
  for (;;) {
    const zero = bytes.indexOf(TERMINATOR, from);
    if (zero >= end || zero < 0) break;
    parts.push(bytes.toString('utf8', from, zero));
    from = zero + 2;
  }
  parts.push(bytes.toString('utf8', from, end));
  return parts.join('\0');
}
