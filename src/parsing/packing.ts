/**
 * Owns the forms in which large values cross threads: bytes with memory of their own, which is moved and not copied.
 * It must never use shared memory: no garbage collector counts it, so nothing would free it in time.
 */
import { createHash } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import type { PackedText } from '../pool/messages.js';
import type { OwnBytes } from './tasks.js';

/** Alone in their memory, so that it can be moved; a copy where they are not. */
export function ownBytes(bytes: Uint8Array): OwnBytes {
  const { buffer } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}

export function packed(value: unknown): OwnBytes {
  return ownBytes(serialize(value));
}

/** The caller names the type it packed. */
export function unpacked<Value>(bytes: OwnBytes): Value {
  return deserialize(bytes) as Value;
}

/** Texts one behind the other; one byte for each unit where Latin-1 is enough. */
export function packedTexts(texts: readonly string[]): PackedText[] {
  const wide = texts.map((text) => WIDE.test(text));
  const bytes = texts.map((text, at) => (wide[at] ? 2 * text.length : text.length));
  const memory = new ArrayBuffer(bytes.reduce((sum, each) => sum + each, 0));
  const all = Buffer.from(memory);
  let byteOffset = 0;
  return texts.map((text, at) => {
    const isWide = wide[at] === true;
    all.write(text, byteOffset, isWide ? 'utf16le' : 'latin1');
    const digest = createHash('sha256').update(text).digest('base64');
    const made = { memory, byteOffset, length: text.length, isWide, digest };
    byteOffset += bytes[at] ?? 0;
    return made;
  });
}

/** All memory inside a value, each once: what can be moved with it. */
export function memoryIn(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (value instanceof ArrayBuffer) found.add(value);
  else if (value instanceof Uint8Array) memoryIn(value.buffer, found);
  else if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) memoryIn(inner, found);
  }
  return found;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the bounds of Latin-1
const WIDE = /[^\x00-\xff]/;
