/**
 * Owns the repair of texts whose fonts name no letters: the codes are numbers of glyphs, which most fonts have in a standard order.
 * It must never change a text that is better as it is, or guess an order from a few characters.
 */
import { strangeShare } from '../shared/plausible.js';
import type { PageChar } from './page-char.js';

const ASCII = Array.from({ length: 0x7f - 0x20 }, (_, at) => String.fromCharCode(0x20 + at)).join(
  '',
);
/** Apple's order of glyphs, with which TrueType fonts begin, those of Windows too. */
const FURTHER =
  'ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ';
/** Each begins with its number of the space. */
const ORDERS = [
  { first: 3, glyphs: ASCII + FURTHER },
  { first: 1, glyphs: ASCII },
];
/** Fewer may look like words by chance. */
const CHARACTERS_MIN = 12;
/** As a share of the lines with such characters, of what is no word. */
const STRANGE_MAX = 0.3;
/** The letters of an order must be so many times better than the codes. */
const TIMES_BETTER = 2;
/** As a share of the codes, of controls, which no text has: among them is the number of the space. */
const CONTROLS_MIN = 0.05;

/** The characters in the same order; where an order makes words of codes, with the letters of their glyphs. */
export function withLettersOfGlyphs(chars: readonly PageChar[]): readonly PageChar[] {
  const codes = chars.filter(({ isUnmapped }) => isUnmapped).map(({ code }) => code);
  if (codes.length < CHARACTERS_MIN) return chars;
  const controls = codes.filter((code) => code < 0x20).length;
  const areNone = controls > codes.length * CONTROLS_MIN;
  const before = meantLines(chars, chars);
  for (const order of ORDERS) {
    const lettered = chars.map((char) => (char.isUnmapped ? letterOf(char, order) : char));
    if (isBetter(meantLines(lettered, chars), before, areNone)) return lettered;
  }
  return chars;
}

/** @param areNone the codes are no characters: they may be signs and digits alone, among which nothing is strange. */
function isBetter(lettered: string, before: string, areNone: boolean): boolean {
  const share = strangeShare(lettered);
  if (share > STRANGE_MAX) return false;
  // Single letters may be signs of another kind, such as notes of music.
  const letters = (text: string) => text.match(/\p{L}{3,}/gu)?.join('').length ?? 0;
  const all = lettered.match(/\p{L}/gu)?.length ?? 0;
  if (letters(lettered) * 2 < all) return false;
  return (
    share * TIMES_BETTER < strangeShare(before) ||
    (areNone && letters(lettered) > letters(before) * TIMES_BETTER)
  );
}

function letterOf(char: PageChar, { first, glyphs }: (typeof ORDERS)[number]): PageChar {
  const code = glyphs.codePointAt(char.code - first);
  return code === undefined ? char : { ...char, code, isUnmapped: false };
}

/** The lines in which the document has characters without a letter. */
function meantLines(chars: readonly PageChar[], document: readonly PageChar[]): string {
  let [lines, line, isMeant] = ['', '', false];
  for (const [at, { code }] of chars.entries()) {
    const isUnmapped = document[at]?.isUnmapped === true;
    isMeant ||= isUnmapped;
    // A code may be that of a line end, too.
    if (code >= 0x20) line += String.fromCodePoint(Math.min(code, 0x10ffff));
    else if (!isUnmapped) {
      if (isMeant) lines += `${line}\n`;
      [line, isMeant] = ['', false];
    }
  }
  return isMeant ? lines + line : lines;
}
