/**
 * Owns the forms in which large values cross threads: bytes with memory of their own, which is moved and not copied.
 * It must never put two values into one memory but where they always move together.
 */
import { createHash } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import { copyOf, newMemory, type OwnBytes } from '../pool/memory.js';
import type { PackedText } from '../pool/messages.js';
import { textSlices } from '../rules/text-slices.js';

export function packed(value: unknown): OwnBytes {
  return copyOf(serialize(value));
}

/** The caller names the type it packed. */
export function unpacked<Value>(bytes: OwnBytes): Value {
  return deserialize(bytes) as Value;
}

/** Texts one behind the other; one byte for each unit where Latin-1 is enough. */
export function packedTexts(texts: readonly string[]): PackedText[] {
  const wide = texts.map((text) => WIDE.test(text));
  const bytes = texts.map((text, at) => (wide[at] ? 2 * text.length : text.length));
  const memory = newMemory(bytes.reduce((sum, each) => sum + each, 0));
  const all = Buffer.from(memory);
  let byteOffset = 0;
  return texts.map((text, at) => {
    const isWide = wide[at] === true;
    all.write(text, byteOffset, isWide ? 'utf16le' : 'latin1');
    const hash = createHash('sha256');
    for (const slice of textSlices(text)) hash.update(slice);
    const digest = hash.digest('base64');
    const made = { memory, byteOffset, length: text.length, isWide, digest };
    byteOffset += bytes[at] ?? 0;
    return made;
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the bounds of Latin-1
const WIDE = /[^\x00-\xff]/;
