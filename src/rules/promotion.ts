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

interface Held {
  bytes: number;
  count: number;
}

type Owned = Weighed & Pick<CacheRecord, 'owner'>;

/**
 * Those that go until the others fit: the least worth ones of owners who have more than their share of the room, which
 * is the same for all who have any. One that has no more than that loses nothing, whatever others bring.
 */
export function givingWay<Record extends Owned>(
  records: readonly Record[],
  room: Readonly<Held>,
  nowMs: number,
): Record[] {
  const left = new Set(leastWorthFirst(records, nowMs));
  const all: Held = { bytes: 0, count: 0 };
  const owners = new Map<string, Held>();
  for (const record of left) {
    const own = owners.get(record.owner) ?? { bytes: 0, count: 0 };
    owners.set(record.owner, own);
    for (const held of [all, own]) count(held, record, 1);
  }
  const isOver = (held: Held | undefined, sharers: number) =>
    held !== undefined && (held.bytes * sharers > room.bytes || held.count * sharers > room.count);
  const gone: Record[] = [];
  while (isOver(all, 1)) {
    for (const record of left) {
      const own = owners.get(record.owner);
      if (own === undefined || !isOver(own, owners.size)) continue;
      left.delete(record);
      gone.push(record);
      for (const held of [all, own]) count(held, record, -1);
      if (own.count === 0) owners.delete(record.owner);
      break;
    }
  }
  return gone;
}

function count(held: Held, { snapshot }: Weighed, by: 1 | -1): void {
  held.bytes += by * (snapshot?.bytes ?? 0);
  held.count += by;
}

/** Of the owners with the most, and of what each of them has, when all together are too many. */
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
  readonly #sizes = new OwnersBySize();
  #size = 0;

  /**
   * Notes the prefixes of an owner's conversation.
   * @param chain the shortest first. @returns how many of the links are of the longest prefix that has come again, or 0.
   */
  note(owner: string, chain: readonly PrefixHash[], nowMs: number): number {
    let longest = 0;
    const own = this.#owners.get(owner) ?? new Map<PrefixHash, Seen>();
    if (chain.length > 1) this.#owners.set(owner, own);
    const before = own.size;
    // Link 0 holds no message.
    for (let at = 1; at < chain.length; at++) {
      const hash = chain[at] as PrefixHash;
      const next = chain[at + 1] ?? null;
      if (again(own, hash, next, nowMs)) longest = at;
    }
    this.#resized(owner, before, own.size);
    while (this.#size > limits.promoteSeenMax) {
      for (const each of this.#sizes.most(FORGOTTEN_SHARE)) this.#forgetOldest(each);
    }
    return longest;
  }

  /** Many at once: the way to the first entry of a map leads over all that were deleted before it. */
  #forgetOldest(owner: string): void {
    const seen = this.#owners.get(owner) ?? new Map<PrefixHash, Seen>();
    const before = seen.size;
    const left = before - Math.ceil(before * FORGOTTEN_SHARE);
    for (const hash of seen.keys()) {
      if (seen.size === left) break;
      seen.delete(hash);
    }
    if (left === 0) this.#owners.delete(owner);
    this.#resized(owner, before, left);
  }

  #resized(owner: string, before: number, after: number): void {
    this.#size += after - before;
    this.#sizes.move(owner, before, after);
  }
}

/** Finds the owners with the most without a look at the others. Who has nothing is not there. */
class OwnersBySize {
  readonly #owners = new Map<number, Set<string>>();
  #most = 0;

  move(owner: string, before: number, after: number): void {
    if (before === after) return;
    const from = this.#owners.get(before);
    from?.delete(owner);
    if (from?.size === 0) this.#owners.delete(before);
    const to = this.#owners.get(after) ?? new Set();
    if (after > 0) this.#owners.set(after, to.add(owner));
    this.#most = Math.max(this.#most, after);
    while (this.#most > 0 && !this.#owners.has(this.#most)) this.#most -= 1;
  }

  /** That share of those with the most, at least one; who has that many for the longest time comes first. */
  most(share: number): string[] {
    const owners = this.#owners.get(this.#most) ?? new Set();
    const many: string[] = [];
    for (const owner of owners) {
      many.push(owner);
      if (many.length >= owners.size * share) break;
    }
    return many;
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
