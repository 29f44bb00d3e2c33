/**
 * Owns what stands before the items of lists: a bullet or a number, in digits, letters or Roman, that goes on from item to item.
 * It must never know a file format.
 */

/** By the names of Office Open XML; unknown ones count in digits. */
export type NumberFormat = string;

export interface ListLevel {
  format: NumberFormat;
  /** `%1.%2`: the numbers of the levels. */
  text: string;
  start: number;
  /** Its text shows the numbers of all levels in digits. */
  legal?: boolean;
  /** It starts anew after an item of so many first levels; absent: of all levels above it. */
  restartsAfter?: number;
}

/** Of one document. */
export class ListCounter {
  readonly #counts = new Map<string, (number | undefined)[]>();

  /** The marker of the list's next item at that depth. */
  next(list: string, levels: ReadonlyMap<number, ListLevel>, depth: number): string {
    const counts = this.#counts.get(list) ?? [];
    this.#counts.set(list, counts);
    for (let level = depth + 1; level < counts.length; level++) {
      if (depth < (levels.get(level)?.restartsAfter ?? level)) counts[level] = undefined;
    }
    for (let level = 0; level <= depth; level++) {
      const start = levels.get(level)?.start ?? 1;
      counts[level] = level === depth ? (counts[level] ?? start - 1) + 1 : (counts[level] ?? start);
    }
    const { text = '', format = 'decimal', legal = false } = levels.get(depth) ?? {};
    if (format === 'bullet') return '•';
    return text.replace(/%([1-9])/g, (_, digit: string) => {
      const level = Number(digit) - 1;
      const shown = legal ? 'decimal' : levels.get(level)?.format;
      return markerOf(shown ?? 'decimal', counts[level] ?? 1);
    });
  }
}

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
