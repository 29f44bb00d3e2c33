/**
 * Owns sets of code points, as sorted ranges that do not touch.
 * It must never hold half of a surrogate pair: that is no character of a well-formed text.
 */

/** First and last code point. */
export type Range = readonly [number, number];
export type Ranges = readonly Range[];

export const LAST_CODE = 0x10_ff_ff;
/** Every character. */
export const ALL: Ranges = [
  [0, 0xd7ff],
  [0xe000, LAST_CODE],
];

export function union(...sets: readonly Ranges[]): Ranges {
  const sorted = sets.flat().sort((a, b) => a[0] - b[0]);
  const joined: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

export function intersection(a: Ranges, b: Ranges): Ranges {
  const common: Range[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [left, right] = [a[i] as Range, b[j] as Range];
    const [from, to] = [Math.max(left[0], right[0]), Math.min(left[1], right[1])];
    if (from <= to) common.push([from, to]);
    if (left[1] < right[1]) i++;
    else j++;
  }
  return common;
}

export function complement(set: Ranges): Ranges {
  const gaps: Range[] = [];
  let next = 0;
  for (const [from, to] of set) {
    if (from > next) gaps.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= LAST_CODE) gaps.push([next, LAST_CODE]);
  return intersection(gaps, ALL);
}

export function single(code: number): Ranges {
  return [[code, code]];
}
