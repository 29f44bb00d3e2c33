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
interface Order {
  /** The number of the space. */
  readonly first: number;
  readonly glyphs: string;
  /** Where it stands apart from the others. */
  readonly space?: number;
}

const ORDERS: readonly Order[] = [
  { first: 3, glyphs: ASCII + FURTHER },
  { first: 1, glyphs: ASCII },
];
/** Of fonts that begin with more glyphs, or with fewer. */
const SHIFTED: readonly Order[] = [-4, -3, -2, -1, 0, 2, 4, 5, 6].map((first) => ({
  first,
  glyphs: ASCII,
}));
/** In a thousand letters, a to z, of the languages of Europe together. */
const FREQUENCIES = [
  85, 13, 32, 42, 143, 14, 18, 22, 76, 3, 6, 47, 28, 74, 65, 25, 6, 67, 70, 72, 38, 13, 9, 3, 8, 8,
];
/** Fewer letters may have any frequencies. */
const LETTERS_MIN = 40;
/** Fewer different ones are signs of another kind, such as notes of music. */
const LETTER_KINDS_MIN = 10;
/** As the mean logarithm of the frequencies: letters of another order are so much rarer. */
const LIKELIER = 0.4;
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
  const counts = new Map<number | undefined, number>();
  for (const { isUnmapped, font } of chars) {
    if (isUnmapped) counts.set(font?.id, (counts.get(font?.id) ?? 0) + 1);
  }
  // Most pages have none.
  if (counts.size === 0) return chars;
  // Each font may have an order of its own; those of a few characters are taken together.
  const isLarge = (font: number | undefined) => (counts.get(font) ?? 0) >= LETTERS_MIN;
  const large = [...counts.keys()].filter(isLarge);
  let lettered = chars;
  for (const font of large) {
    lettered = withLettersOf(lettered, (char) => char.font?.id === font);
  }
  return withLettersOf(lettered, (char) => !isLarge(char.font?.id));
}

function withLettersOf(
  chars: readonly PageChar[],
  isOne: (char: PageChar) => boolean,
): readonly PageChar[] {
  const isMeant = chars.map((char) => char.isUnmapped === true && isOne(char));
  const codes = chars.filter((_, at) => isMeant[at]).map(({ code }) => code);
  if (codes.length < CHARACTERS_MIN) return chars;
  const controls = codes.filter((code) => code < 0x20).length;
  const areNone = controls > codes.length * CONTROLS_MIN;
  const before = meantLines(chars, isMeant);
  const lettered = (order: Order) =>
    chars.map((char, at) => (isMeant[at] ? letterOf(char, order) : char));
  const shifted = likeliest(codes);
  if (shifted !== null) {
    const text = lettered(shifted);
    const share = strangeShare(meantLines(text, isMeant));
    return share <= Math.min(STRANGE_MAX, strangeShare(before)) ? text : chars;
  }
  for (const order of ORDERS) {
    const text = lettered(order);
    if (isBetter(meantLines(text, isMeant), before, areNone)) return text;
  }
  return chars;
}

/** An order whose letters are those that languages have, where those of the standard orders, and the codes, are not. */
function likeliest(codes: readonly number[]): Order | null {
  const known = [...ORDERS, { first: 0x20, glyphs: ASCII }];
  const others = Math.max(...known.map((order) => likelihood(codes, order)));
  const [best] = SHIFTED.map((order) => ({ order, likely: likelihood(codes, order) })).sort(
    (a, b) => b.likely - a.likely,
  );
  if (best === undefined || best.likely <= others + LIKELIER) return null;
  const { first, glyphs } = best.order;
  const isSign = (code: number) => !/[\p{L}\p{N}]/u.test(glyphs[code - first] ?? '');
  // No sign is as frequent as the space, which may stand before them all.
  return { ...best.order, space: mostFrequent(codes.filter(isSign)) };
}

function mostFrequent(codes: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  const [[code] = [Number.NaN]] = [...counts].sort(([, a], [, b]) => b - a);
  return code;
}

function likelihood(codes: readonly number[], { first, glyphs }: Order): number {
  const shown = codes.map((code) => glyphs[code - first] ?? '').join('');
  const letters = shown.normalize('NFD').toLowerCase().match(/[a-z]/g) ?? [];
  if (letters.length < LETTERS_MIN || new Set(letters).size < LETTER_KINDS_MIN)
    return Number.NEGATIVE_INFINITY;
  const of = (letter: string) => FREQUENCIES[letter.charCodeAt(0) - 0x61] ?? 1;
  return letters.reduce((sum, letter) => sum + Math.log(of(letter)), 0) / letters.length;
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

function letterOf(char: PageChar, { first, glyphs, space }: Order): PageChar {
  const code = char.code === space ? 0x20 : glyphs.codePointAt(char.code - first);
  return code === undefined ? char : { ...char, code, isUnmapped: false };
}

/** The lines in which a meant character stands. */
function meantLines(chars: readonly PageChar[], isMeant: readonly boolean[]): string {
  let [lines, line, isWanted] = ['', '', false];
  for (const [at, { code }] of chars.entries()) {
    isWanted ||= isMeant[at] === true;
    // A code may be that of a line end, too.
    if (code >= 0x20) line += String.fromCodePoint(Math.min(code, 0x10ffff));
    else if (!isMeant[at]) {
      if (isWanted) lines += `${line}\n`;
      [line, isWanted] = ['', false];
    }
  }
  return isWanted ? lines + line : lines;
}
