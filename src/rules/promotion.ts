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

/** Of those that are remembered, when they are too many. */
const FORGOTTEN_SHARE = 0.1;

interface Seen {
  /** The link that followed it; null where it was the whole conversation. */
  next: PrefixHash | null;
  lastMs: number;
  /** It has come again behind another text, or after a while. */
  again: boolean;
}

/** Prefixes that came lately. A hash holds its owner, so that owners never meet. */
export class SeenPrefixes {
  /** What came last is last. */
  readonly #seen = new Map<PrefixHash, Seen>();

  /**
   * Notes the prefixes of a conversation.
   * @param chain the shortest first. @returns how many of the links are of the longest prefix that has come again, or 0.
   */
  note(chain: readonly PrefixHash[], nowMs: number): number {
    let longest = 0;
    // Link 0 holds no message.
    for (let at = 1; at < chain.length; at++) {
      const hash = chain[at] as PrefixHash;
      const next = chain[at + 1] ?? null;
      if (this.#again(hash, next, nowMs)) longest = at;
    }
    return longest;
  }

  #again(hash: PrefixHash, next: PrefixHash | null, nowMs: number): boolean {
    const known = this.#seen.get(hash);
    const isOther =
      known !== undefined && known.next !== null && next !== null && known.next !== next;
    const isLater = known !== undefined && nowMs - known.lastMs >= limits.promoteReturnMs;
    const again = known?.again === true || isOther || isLater;
    this.#seen.delete(hash);
    this.#seen.set(hash, { next, lastMs: nowMs, again });
    if (this.#seen.size > limits.promoteSeenMax) this.#forgetOldest();
    return again;
  }

  /** Many at once: the way to the first entry of a map leads over all that were deleted before it. */
  #forgetOldest(): void {
    let left = Math.ceil(limits.promoteSeenMax * FORGOTTEN_SHARE);
    for (const hash of this.#seen.keys()) {
      if (left === 0) return;
      this.#seen.delete(hash);
      left -= 1;
    }
  }
}
