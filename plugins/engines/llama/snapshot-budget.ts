/**
 * Owns the choice of the snapshots that make room for another one.
 * It must stay pure, and never let an owner with many of them take the last place of one with few.
 */

export interface Kept {
  /** Whose it is. */
  readonly owner: string;
  readonly bytes: number;
  /** Larger is later. */
  readonly usedAt: number;
  /** Nobody asked for it: it goes before all that somebody asked for. */
  readonly spare?: boolean;
  /** It is to stay in memory: it goes after all others of its owner. */
  readonly pinned?: boolean;
}

/**
 * What nobody asked for first. Then each time from the owner that holds the most, the new bytes counted as the asking
 * owner's: the longest unused of what is not pinned, then of what is.
 * Null when all of them together are not enough.
 */
export function evictions<Entry extends Kept>(
  kept: Iterable<Entry>,
  asking: { readonly owner: string; readonly bytes: number },
  bytesToFree: number,
): Entry[] | null {
  const all = [...kept];
  const spare = all.filter((entry) => entry.spare === true);
  const spareBytes = spare.reduce((sum, { bytes }) => sum + bytes, 0);
  if (spareBytes >= bytesToFree) return chosenOf(spare, asking, bytesToFree);
  const named = all.filter((entry) => entry.spare !== true);
  const chosen = chosenOf(named, asking, bytesToFree - spareBytes);
  return chosen && [...spare, ...chosen];
}

function chosenOf<Entry extends Kept>(
  kept: readonly Entry[],
  asking: { readonly owner: string; readonly bytes: number },
  bytesToFree: number,
): Entry[] | null {
  const shares = sharesOf(kept);
  const own = shares.find(({ owner }) => owner === asking.owner);
  if (own) own.bytes += asking.bytes;
  const chosen: Entry[] = [];
  for (let freed = 0; freed < bytesToFree; ) {
    const [largest] = shares.filter(({ entries }) => entries.length > 0).sort(byBytes);
    const entry = largest?.entries.shift();
    if (!largest || !entry) return null;
    largest.bytes -= entry.bytes;
    freed += entry.bytes;
    chosen.push(entry);
  }
  return chosen;
}

interface Share<Entry> {
  readonly owner: string;
  bytes: number;
  readonly entries: Entry[];
}

function sharesOf<Entry extends Kept>(kept: Iterable<Entry>): Share<Entry>[] {
  const shares = new Map<string, Share<Entry>>();
  for (const entry of kept) {
    const share = shares.get(entry.owner) ?? { owner: entry.owner, bytes: 0, entries: [] };
    share.bytes += entry.bytes;
    share.entries.push(entry);
    shares.set(entry.owner, share);
  }
  for (const { entries } of shares.values())
    entries.sort(
      (a, b) => Number(a.pinned ?? false) - Number(b.pinned ?? false) || a.usedAt - b.usedAt,
    );
  return [...shares.values()];
}

function byBytes<Entry>(a: Share<Entry>, b: Share<Entry>): number {
  return b.bytes - a.bytes;
}
