/**
 * Owns the order in which prompts share most: each behind the one that it has the longest beginning in common with.
 * It must stay pure, and never look at what ids mean.
 */

/** Positions of the prompts in that order. */
export function sharingOrder(prompts: readonly Uint32Array[]): number[] {
  const order = [...prompts.keys()];
  return order.sort((a, b) => compared(prompts[a] ?? NONE, prompts[b] ?? NONE) || a - b);
}

export function sharedLength(a: Uint32Array, b: Uint32Array): number {
  const end = Math.min(a.length, b.length);
  let at = 0;
  while (at < end && a[at] === b[at]) at += 1;
  return at;
}

const NONE = new Uint32Array(0);

function compared(a: Uint32Array, b: Uint32Array): number {
  const at = sharedLength(a, b);
  return (a[at] ?? -1) - (b[at] ?? -1);
}
