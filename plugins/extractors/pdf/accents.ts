/**
 * Owns letters whose accent a PDF draws as a character of its own, as TeX does: the two become one letter.
 * It must never join characters that do not lie one over the other.
 */
import type { PageChar } from './page-char.js';
import { alongLines } from './turns.js';

/** Accents that stand alone, and what Unicode puts behind a letter for them. */
const COMBINING: ReadonlyMap<number, string> = new Map(
  Object.entries({
    '`': '\u0300',
    '´': '\u0301',
    '^': '\u0302',
    ˆ: '\u0302',
    '~': '\u0303',
    '˜': '\u0303',
    '¯': '\u0304',
    '˘': '\u0306',
    '˙': '\u0307',
    '¨': '\u0308',
    '˚': '\u030a',
    '˝': '\u030b',
    ˇ: '\u030c',
    '¸': '\u0327',
    '˛': '\u0328',
  }).map(([accent, combining]) => [accent.codePointAt(0) ?? 0, combining]),
);
/** An accent stands over a letter without a dot. */
const DOTTED: ReadonlyMap<string, string> = new Map([
  ['ı', 'i'],
  ['ȷ', 'j'],
]);

/** The characters in the same order. */
export function withAccents(chars: readonly PageChar[]): readonly PageChar[] {
  return chars.some(({ code }) => COMBINING.has(code)) ? joined(chars) : chars;
}

/** An accent comes before its letter, or behind it. */
function joined(chars: readonly PageChar[]): PageChar[] {
  const found: PageChar[] = [];
  for (const char of chars) {
    const last = found.at(-1);
    const [accent, letter] = COMBINING.has(char.code) ? [char, last] : [last, char];
    const code = accent === undefined || letter === undefined ? null : composed(accent, letter);
    if (code === null || letter === undefined) found.push(char);
    else found[found.length - 1] = { ...letter, code };
  }
  return found;
}

/** Null where they are two characters, or no letter of Unicode. */
function composed(first: PageChar, second: PageChar): number | null {
  const mark = COMBINING.get(first.code);
  if (mark === undefined) return null;
  const [accent, { code, left, right, top, bottom }] = alongLines(first, second);
  const middle = (accent.left + accent.right) / 2;
  const isOver = middle > left && middle < right && accent.top > bottom && accent.bottom < top;
  if (!isOver) return null;
  const letter = String.fromCodePoint(code);
  const [one = '', ...others] = `${DOTTED.get(letter) ?? letter}${mark}`.normalize('NFC');
  return others.length === 0 && one !== letter ? (one.codePointAt(0) ?? null) : null;
}
