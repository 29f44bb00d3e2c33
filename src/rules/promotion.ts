/**
 * Owns which prefixes are kept without being asked for: when one has come again, what it is worth, and which goes first.
 * It must stay pure, and never weigh one owner's prefixes by another's requests.
 */
import { limits } from '../limits/index.js';
import type { CacheRecord } from './cache-state.js';
import type { PrefixHash } from './prefix.js';

const DAY_MS = 24 * 60 * 60_000;
/** Half of what a prefix was worth is left after so long without a use. */
const HALF_LIFE_MS = DAY_MS;

/** Milliseconds that one use of a kept prefix saves: its evaluation, less its load from the disk. */
export function savedMs(tokens: number, msPerToken: number, bytesPerToken: number): number {
  return tokens * (msPerToken - bytesPerToken / limits.promoteLoadBytesPerMs);
}

type Weighed = Pick<CacheRecord, 'tokens' | 'hits' | 'expirySetMs' | 'snapshot'>;

/** Tokens that it spared, and will, for each byte; older uses count less. */
export function worthOf({ tokens, hits, expirySetMs, snapshot }: Weighed, nowMs: number): number {
  const age = Math.max(0, nowMs - expirySetMs);
  return ((hits + 1) * tokens * 2 ** (-age / HALF_LIFE_MS)) / Math.max(1, snapshot?.bytes ?? 1);
}

export function leastWorthFirst<Record extends Weighed>(
  records: readonly Record[],
  nowMs: number,
): Record[] {
  return records
    .map((record) => ({ record, worth: worthOf(record, nowMs) }))
    .sort((one, other) => one.worth - other.worth)
    .map(({ record }) => record);
}

/** Of those of the owner with the most, when all together are too many. */
const FORGOTTEN_SHARE = 0.1;

interface Seen {
  /** The link that followed it; null where it was the whole conversation. */
  next: PrefixHash | null;
  lastMs: number;
  /** It has come again behind another text, or after a while. */
  again: boolean;
}

/** Prefixes that came lately. An owner who brings many forgets none of another who has fewer. */
export class SeenPrefixes {
  /** By owner; what came last is last. */
  readonly #owners = new Map<string, Map<PrefixHash, Seen>>();
  #size = 0;

  /**
   * Notes the prefixes of an owner's conversation.
   * @param chain the shortest first. @returns how many of the links are of the longest prefix that has come again, or 0.
   */
  note(owner: string, chain: readonly PrefixHash[], nowMs: number): number {
    let longest = 0;
    const own = this.#owners.get(owner) ?? new Map<PrefixHash, Seen>();
    if (chain.length > 1) this.#owners.set(owner, own);
    this.#size -= own.size;
    // Link 0 holds no message.
    for (let at = 1; at < chain.length; at++) {
      const hash = chain[at] as PrefixHash;
      const next = chain[at + 1] ?? null;
      if (again(own, hash, next, nowMs)) longest = at;
    }
    this.#size += own.size;
    while (this.#size > limits.promoteSeenMax) this.#forgetOldest();
    return longest;
  }

  /** Many at once: the way to the first entry of a map leads over all that were deleted before it. */
  #forgetOldest(): void {
    let most: readonly [string, Map<PrefixHash, Seen>] = ['', new Map()];
    for (const each of this.#owners) if (each[1].size > most[1].size) most = each;
    const [owner, seen] = most;
    let left = Math.ceil(seen.size * FORGOTTEN_SHARE);
    this.#size -= left;
    for (const hash of seen.keys()) {
      if (left === 0) return;
      seen.delete(hash);
      left -= 1;
    }
    this.#owners.delete(owner);
  }
}

function again(
  seen: Map<PrefixHash, Seen>,
  hash: PrefixHash,
  next: PrefixHash | null,
  nowMs: number,
): boolean {
  const known = seen.get(hash);
  const isOther =
    known !== undefined && known.next !== null && next !== null && known.next !== next;
  const isLater = known !== undefined && nowMs - known.lastMs >= limits.promoteReturnMs;
  const isAgain = known?.again === true || isOther || isLater;
  seen.delete(hash);
  seen.set(hash, { next, lastMs: nowMs, again: isAgain });
  return isAgain;
}
