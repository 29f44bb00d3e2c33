/**
 * Owns repeatable random numbers.
 * It must never depend on anything but its seed.
 */

/** Whole numbers from 0 up to, not including, `below`. */
export type Random = (below: number) => number;

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
