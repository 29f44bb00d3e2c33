/**
 * Owns the rule by which owners share a bound: each may hold as much as is free.
 * It must never let any number of owners take all of it: the next one always finds room.
 */

export interface Held {
  readonly own: number;
  /** Of all owners, this one among them. */
  readonly total: number;
}

/** Whether the owner may take so much more. One alone gets half of the bound, two a third each. */
export function hasShare({ own, total }: Held, more: number, max: number): boolean {
  return own + more <= max - total;
}
