/**
 * Owns the statistics of a run: medians, quartiles, and when a figure is too uncertain to decide.
 * It must never drop a sample.
 */

export interface Spread {
  readonly low: number;
  readonly median: number;
  readonly high: number;
}

/** A figure whose quartiles are further apart than this share of the median decides nothing. */
const UNDECIDED_SPREAD = 0.15;

export type Verdict = 'goal' | 'must' | 'short' | 'undecided' | 'report';

/** Median and quartiles, interpolated between neighbours. */
export function spreadOf(values: readonly number[]): Spread {
  const rising = [...values].sort((a, b) => a - b);
  return {
    low: quantile(rising, 0.25),
    median: quantile(rising, 0.5),
    high: quantile(rising, 0.75),
  };
}

/** The quantile of values in any order: 99 of a hundred values are below the quantile of 0.99. */
export function quantileOf(values: readonly number[], part: number): number {
  return quantile(
    [...values].sort((a, b) => a - b),
    part,
  );
}

function quantile(rising: readonly number[], part: number): number {
  const at = (rising.length - 1) * part;
  const below = rising[Math.floor(at)] ?? Number.NaN;
  const above = rising[Math.ceil(at)] ?? below;
  return below + (above - below) * (at - Math.floor(at));
}

export interface Bounds {
  readonly better: 'more' | 'less';
  readonly must: number | null;
  readonly goal: number | null;
}

export function verdictOf(spread: Spread, { better, must, goal }: Bounds): Verdict {
  if (must === null && goal === null) return 'report';
  if (spread.high - spread.low > UNDECIDED_SPREAD * spread.median) return 'undecided';
  const holds = (bound: number | null): boolean =>
    bound !== null && (better === 'more' ? spread.median >= bound : spread.median <= bound);
  if (holds(goal)) return 'goal';
  return holds(must) ? 'must' : 'short';
}
