/**
 * Owns the comparison of two prompts that begin alike: where they part, and what is equal again behind that place.
 * It must never read text, and its work is bounded by the length of the shorter prompt and the square of a gap.
 */

export interface Parting {
  /** Leading ids that are equal. */
  readonly at: number;
  /** Ids behind the place that are equal again, in all. */
  readonly again: number;
}

export interface PartingBounds {
  /** The most ids that either prompt may have in the place where they differ. */
  readonly gapMax: number;
  /** So many equal ids in a row tell that the prompts are alike again. */
  readonly runMin: number;
  /** Further places behind the first one at which they may differ. */
  readonly placesMax: number;
}

/** Null where the one goes on from the other, or nothing is equal again behind a short difference. */
export function partingOf(
  before: Uint32Array,
  now: Uint32Array,
  bounds: PartingBounds,
): Parting | null {
  const at = commonLength(before, 0, now, 0);
  let [beforeAt, nowAt, again] = [at, at, 0];
  // A line may differ in several places, and several lines may.
  for (let parted = 0; parted < bounds.placesMax; parted++) {
    if (beforeAt === before.length || nowAt === now.length) break;
    const next = alikeAgain([before, beforeAt], [now, nowAt], bounds);
    if (next === null) break;
    again += next.length;
    beforeAt += next.beforeGap + next.length;
    nowAt += next.nowGap + next.length;
  }
  return again === 0 ? null : { at, again };
}

type From = readonly [ids: Uint32Array, at: number];

/** The shortest differences first. */
function alikeAgain(
  [before, beforeAt]: From,
  [now, nowAt]: From,
  { gapMax, runMin }: PartingBounds,
) {
  for (let gap = 1; gap <= 2 * gapMax; gap++) {
    for (let nowGap = Math.max(0, gap - gapMax); nowGap <= Math.min(gap, gapMax); nowGap++) {
      const beforeGap = gap - nowGap;
      const length = commonLength(before, beforeAt + beforeGap, now, nowAt + nowGap);
      if (length >= runMin) return { beforeGap, nowGap, length };
    }
  }
  return null;
}

export function commonLength(
  one: Uint32Array,
  oneFrom: number,
  other: Uint32Array,
  otherFrom: number,
): number {
  const end = Math.min(one.length - oneFrom, other.length - otherFrom);
  let length = 0;
  while (length < end && one[oneFrom + length] === other[otherFrom + length]) length++;
  return Math.max(0, length);
}
