/**
 * Owns the letters of fonts that TeX draws as small pictures: they have no names, and their codes are those of one of two orders.
 * It must never change a font whose codes do not show by their ligatures which order it has.
 */
import type { PageChar } from './page-char.js';

interface Order {
  /** The first and the last code of ff, fi, fl, ffi, ffl. */
  readonly ligatures: readonly [number, number];
  readonly letters: ReadonlyMap<number, string>;
}

const LIGATURES = ['ff', 'fi', 'fl', 'ffi', 'ffl'];

function from(first: number, letters: Iterable<string>): [number, string][] {
  return [...letters].map((letter, at) => [first + at, letter]);
}

/** Cork, of the fonts that are named ec and tc. */
const CORK: Order = {
  ligatures: [0x1b, 0x1f],
  letters: new Map([
    ...from(0x00, '`´ˆ˜¨˝˚ˇ˘¯˙¸˛‚‹›“”„«»–—'),
    ...from(0x19, 'ıȷ'),
    ...from(0x1b, LIGATURES),
    ...from(0x80, 'ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ¡¿£'),
    ...from(0xd7, ['Œ']),
    [0xdf, 'SS'],
    [0xf7, 'œ'],
    [0xff, 'ß'],
  ]),
};

/** Knuth's own. */
const KNUTH: Order = {
  ligatures: [0x0b, 0x0f],
  letters: new Map([
    ...from(0x0b, LIGATURES),
    ...from(0x10, 'ıȷ`´ˇ˘¯˚¸ßæœøÆŒØ'),
    [0x22, '”'],
    [0x5c, '“'],
    ...from(0x7b, '–—˝˜¨'),
  ]),
};

/** As a share of the ligatures: beside a letter. */
const JOINED_MIN = 0.8;
/** Of one ligature: fewer letters are a formula, or no text. */
const LETTERS_MIN = 8;

/** The characters in the same order; a ligature becomes its letters. */
export function withTexLetters(chars: readonly PageChar[]): readonly PageChar[] {
  const orders = new Map<number, Order | null>();
  for (const { font } of chars) {
    if (font?.name === '' && !orders.has(font.id)) orders.set(font.id, orderOf(chars, font.id));
  }
  if (![...orders.values()].some((order) => order !== null)) return chars;
  return chars.flatMap((char) => {
    const order = char.font === undefined ? null : orders.get(char.font.id);
    if (order === null || order === undefined) return char;
    return withLetters(char, order.letters.get(char.code) ?? String.fromCodePoint(char.code));
  });
}

/** One character for each letter: they share its place. */
export function withLetters(char: PageChar, letters: string): PageChar[] {
  const all = [...letters];
  const width = (char.right - char.left) / all.length;
  return all.map((letter, at) => ({
    ...char,
    code: letter.codePointAt(0) ?? 0,
    isUnmapped: false,
    left: char.left + width * at,
    right: char.left + width * (at + 1),
  }));
}

function orderOf(chars: readonly PageChar[], font: number): Order | null {
  const isLetter = (char: PageChar | undefined) =>
    char?.font?.id === font && char.code >= 0x61 && char.code <= 0x7a;
  const letters = chars.filter(isLetter).length;
  const fits = ({ ligatures: [first, last] }: Order) => {
    let [ligatures, joined] = [0, 0];
    for (const [at, char] of chars.entries()) {
      if (char.font?.id !== font || char.code < first || char.code > last) continue;
      ligatures += 1;
      if (isLetter(chars[at - 1]) || isLetter(chars[at + 1])) joined += 1;
    }
    return ligatures > 0 && joined >= ligatures * JOINED_MIN && letters >= ligatures * LETTERS_MIN;
  };
  const [order, other] = [CORK, KNUTH].filter(fits);
  return other === undefined ? (order ?? null) : null;
}
