/**
 * Owns the reading of a text that crossed as bytes.
 * It must never keep the bytes: their memory is moved, and given back.
 */
import type { PackedText } from './messages.js';

export function textOf({ memory, byteOffset, length, isWide }: PackedText): string {
  const bytes = Buffer.from(memory, byteOffset, isWide ? 2 * length : length);
  return bytes.toString(isWide ? 'utf16le' : 'latin1');
}

/** The memory of the packed texts among these, each once. */
export function memoryOf(texts: readonly (string | PackedText)[]): ArrayBuffer[] {
  const packed = texts.filter((text) => typeof text !== 'string');
  return [...new Set(packed.map(({ memory }) => memory))];
}
