/**
 * Owns the letters that ids are made of.
 * It must never prefer some letters, or an id would be easier to guess.
 */
import type { NewBytes } from '../clock.js';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';
/** Bytes above would make the first letters likelier. */
const FAIR_BYTES = 256 - (256 % ALPHABET.length);

export function idLetters(newBytes: NewBytes, length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of newBytes(length)) {
      if (byte < FAIR_BYTES) text += ALPHABET.charAt(byte % ALPHABET.length);
    }
  }
  return text.slice(0, length);
}
