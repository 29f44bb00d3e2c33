/**
 * Owns how a number stands before an item of a list: digits, letters, Roman.
 * It must never know which list it is.
 */

/** By the names of Office Open XML; unknown ones count in digits. */
export type NumberFormat = string;

export function markerOf(format: NumberFormat, value: number): string {
  switch (format) {
    case 'none':
      return '';
    case 'lowerLetter':
      return letters(value);
    case 'upperLetter':
      return letters(value).toUpperCase();
    case 'lowerRoman':
      return roman(value);
    case 'upperRoman':
      return roman(value).toUpperCase();
    case 'decimalZero':
      return String(value).padStart(2, '0');
    default:
      return String(value);
  }
}

const LETTER_REPEAT_MAX = 30;

/** a … z, then aa, bb: as word processors count. */
function letters(value: number): string {
  if (value < 1 || value > 26 * LETTER_REPEAT_MAX) return String(value);
  return String.fromCharCode(97 + ((value - 1) % 26)).repeat(Math.ceil(value / 26));
}

const numerals: readonly (readonly [number, string])[] = [
  [1000, 'm'],
  [900, 'cm'],
  [500, 'd'],
  [400, 'cd'],
  [100, 'c'],
  [90, 'xc'],
  [50, 'l'],
  [40, 'xl'],
  [10, 'x'],
  [9, 'ix'],
  [5, 'v'],
  [4, 'iv'],
  [1, 'i'],
];

function roman(value: number): string {
  if (value < 1 || value > 3999) return String(value);
  let rest = value;
  let text = '';
  for (const [worth, numeral] of numerals) {
    for (; rest >= worth; rest -= worth) text += numeral;
  }
  return text;
}
