/**
 * Owns sliding windows of what was used: sums over the last minute or day, in buckets of bounded number.
 * It must never count less than a log of every use would, nor more than a bucket's length longer.
 */

export interface WindowSpan {
  readonly windowMs: number;
  /** Uses closer than this leave the window together, with the last of them. */
  readonly bucketMs: number;
}

interface Bucket {
  readonly fromMs: number;
  readonly toMs: number;
  readonly amount: number;
}

export interface RateWindow {
  readonly seenMs: number;
  /** The oldest first; at most `windowMs / bucketMs + 2`. */
  readonly buckets: readonly Bucket[];
  readonly used: number;
}

export const emptyWindow: RateWindow = { seenMs: 0, buckets: [], used: 0 };

/** A clock that jumped back counts as one that stood still: every use keeps its age. */
export function windowAt(window: RateWindow, span: WindowSpan, nowMs: number): RateWindow {
  if (nowMs < window.seenMs) return shifted(window, nowMs);
  const buckets = window.buckets.filter(({ toMs }) => nowMs - toMs < span.windowMs);
  if (buckets.length === window.buckets.length) return { ...window, seenMs: nowMs };
  return { seenMs: nowMs, buckets, used: sum(buckets) };
}

export function addedTo(
  window: RateWindow,
  span: WindowSpan,
  amount: number,
  nowMs: number,
): RateWindow {
  const { buckets, used } = windowAt(window, span, nowMs);
  const last = buckets.at(-1);
  const joins = last !== undefined && nowMs - last.fromMs < span.bucketMs;
  const bucket = joins
    ? { fromMs: last.fromMs, toMs: nowMs, amount: last.amount + amount }
    : { fromMs: nowMs, toMs: nowMs, amount };
  const older = joins ? buckets.slice(0, -1) : buckets;
  return { seenMs: nowMs, buckets: [...older, bucket], used: used + amount };
}

/** Milliseconds until `need` more fit under `max` if nothing else is used: 0 for now, null for never. */
export function waitMs(
  window: RateWindow,
  span: WindowSpan,
  { need, max }: { readonly need: number; readonly max: number },
  nowMs: number,
): number | null {
  if (need > max) return null;
  const { buckets, used } = windowAt(window, span, nowMs);
  let left = used;
  if (left + need <= max) return 0;
  for (const { toMs, amount } of buckets) {
    left -= amount;
    if (left + need <= max) return toMs + span.windowMs - nowMs;
  }
  return null;
}

function shifted({ seenMs, buckets, used }: RateWindow, nowMs: number): RateWindow {
  const backMs = seenMs - nowMs;
  const moved = buckets.map(({ fromMs, toMs, amount }) => ({
    fromMs: fromMs - backMs,
    toMs: toMs - backMs,
    amount,
  }));
  return { seenMs: nowMs, buckets: moved, used };
}

function sum(buckets: readonly Bucket[]): number {
  return buckets.reduce((total, { amount }) => total + amount, 0);
}
