/**
 * Owns text to count: prose of real sentences in an order that a seed decides, and hostile text.
 * It must never give equal texts for different seeds.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const sentences = readFileSync(fileURLToPath(new URL('../../../LICENSE', import.meta.url)), 'utf8')
  .replace(/\s+/g, ' ')
  .split(/(?<=[.;:]) /)
  .filter((sentence) => sentence.length > 20);

export function prose(bytes: number, seed: number): string {
  const next = generator(seed);
  let text = `Text ${seed}.`;
  while (text.length < bytes) text += ` ${sentences[Math.floor(next() * sentences.length)]}`;
  return text.slice(0, bytes);
}

/** Each text has about this many bytes of UTF-8. */
export function hostileTexts(bytes: number): ReadonlyMap<string, string> {
  const next = generator(1);
  const letters = Array.from({ length: bytes }, () => 97 + Math.floor(next() * 26));
  return new Map([
    ['one word of one letter', 'a'.repeat(bytes)],
    ['one word of all letters', Buffer.from(letters).toString('latin1')],
    ['spaces', ' '.repeat(bytes)],
    ['emoji', '😀'.repeat(bytes >> 2)],
    ['punctuation', '!?'.repeat(bytes >> 1)],
    ['line ends', '\n'.repeat(bytes)],
  ]);
}

/** Mulberry32. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
