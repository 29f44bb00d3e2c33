/**
 * Owns the doubt in a page's text: fonts without a map to Unicode give characters that nobody wrote.
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
  // Rules of dots and dashes are no letters either, and good text all the same.
  const dumb = length >= 10 && letters < length / 20 ? 0.5 : 0;
  return Math.min(1, odd / length + dumb);
}

/** A page beyond it is read again by other means. */
export const DOUBT_MAX = 0.1;
