/**
 * Owns the quality score of a page's text: fonts without a map to Unicode give wrong characters.
 * It must never change a text, only say how far it is to be trusted.
 */

/** Characters no author writes: the replacement, private use, controls, unassigned ones. */
const strange = /[\ufffd\p{Co}\p{Cn}]|(?![\t\n])\p{Cc}/gu;
const letter = /[\p{L}\p{N}]/gu;

/** 0 is good, 1 is worthless. */
export function doubtOf(text: string, mapErrors = 0): number {
  const length = text.replace(/\s/g, '').length;
  if (length === 0) return 1;
  const odd = (text.match(strange)?.length ?? 0) + mapErrors;
  const letters = text.match(letter)?.length ?? 0;
  // Lines of dots and dashes are good text although they have no letters.
  const dumb = length >= 10 && letters < length / 20 ? 0.5 : 0;
  return Math.min(1, odd / length + dumb);
}

/** A page with a worse score is read again by another reader. */
export const DOUBT_MAX = 0.1;
