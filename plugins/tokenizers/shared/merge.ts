/**
 * Owns the joining of neighbouring parts, lowest order first and the leftmost of equals, in O(n log n).
 * It must give the very parts of the plain algorithm, and pause after bounded work.
 */
import type { Vocabulary } from 'preface/plugin';
import { PairHeap } from './pair-heap.js';

const NONE = -1;

/** The order in which two neighbours are joined. */
export interface PairOrder {
  /** Of `[start, middle)` with `[middle, end)`: lowest first; -1 where they stay apart. */
  orderOf(bytes: Uint8Array, start: number, middle: number, end: number): number;
}

/** Finds the number of a byte string: open addressing over the packed strings, no strings made. */
export class RankTable implements PairOrder {
  readonly #slots: Int32Array;
  readonly #mask: number;
  #lengthMax = 0;

  /** @param splits where the string of each number is split: then equal strings with another split are others. */
  constructor(
    readonly ranks: Vocabulary,
    readonly splits: Uint16Array | null = null,
  ) {
    const count = ranks.offsets.length - 1;
    const size = 2 ** Math.ceil(Math.log2(count * 2 + 2));
    this.#slots = new Int32Array(size).fill(NONE);
    this.#mask = size - 1;
    for (let rank = 0; rank < count; rank += 1) this.#add(rank);
  }

  /** Rank of `bytes[start..end)`, or -1. */
  find(bytes: Uint8Array, start: number, end: number, split = 0): number {
    const length = end - start;
    if (length > this.#lengthMax) return NONE;
    let slot = hashOf(bytes, start, end) & this.#mask;
    for (;;) {
      const rank = this.#slots[slot] ?? NONE;
      if (rank === NONE) return NONE;
      if (this.#splitOf(rank) === split && this.#equals(rank, bytes, start, length)) return rank;
      slot = (slot + 1) & this.#mask;
    }
  }

  /** By the rank of what they give together. */
  orderOf(bytes: Uint8Array, start: number, middle: number, end: number): number {
    return this.find(bytes, start, end, this.splits === null ? 0 : middle - start);
  }

  #splitOf(rank: number): number {
    return this.splits === null ? 0 : (this.splits[rank] ?? 0);
  }

  #add(rank: number): void {
    const { bytes, offsets } = this.ranks;
    const start = offsets[rank] ?? 0;
    const end = offsets[rank + 1] ?? 0;
    // What has no text is never looked for.
    if (start === end) return;
    this.#lengthMax = Math.max(this.#lengthMax, end - start);
    let slot = hashOf(bytes, start, end) & this.#mask;
    while (this.#slots[slot] !== NONE) slot = (slot + 1) & this.#mask;
    this.#slots[slot] = rank;
  }

  #equals(rank: number, bytes: Uint8Array, start: number, length: number): boolean {
    const own = this.ranks.offsets[rank] ?? 0;
    if ((this.ranks.offsets[rank + 1] ?? 0) - own !== length) return false;
    for (let at = 0; at < length; at += 1) {
      if (this.ranks.bytes[own + at] !== bytes[start + at]) return false;
    }
    return true;
  }
}

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let at = start; at < end; at += 1) {
    hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01_00_01_93);
  }
  return hash ^ (hash >>> 15);
}

/** Pairs looked at, or joined, between two places to pause. */
const STEP_PAIRS = 32_768;

/** Ranks of one piece; pauses after bounded work. */
export function* mergePiece(bytes: Uint8Array, table: RankTable): Generator<void, Uint32Array> {
  const whole = table.find(bytes, 0, bytes.length);
  if (whole !== NONE) return Uint32Array.of(whole);
  const ends = yield* mergedEnds(bytes, table, false);
  let start = 0;
  return Uint32Array.from(ends, (end) => {
    const rank = table.find(bytes, start, end);
    start = end;
    return rank;
  });
}

/**
 * The ends of the parts that are left.
 * @param wide parts are characters at first, not bytes.
 */
export function* mergedEnds(
  bytes: Uint8Array,
  order: PairOrder,
  wide: boolean,
): Generator<void, number[]> {
  return yield* new Merge(bytes, order, wide).run();
}

/** Whether a part begins with this byte at first. */
export function startsPart(byte: number, wide: boolean): boolean {
  return !wide || (byte & 0xc0) !== 0x80;
}

/** Parts are named by the byte they begin at; `#next` of the last one is the length. */
class Merge {
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  /** Order of each part with the one after it: an entry of the heap that says another is stale. */
  readonly #pair: Int32Array;
  readonly #heap: PairHeap;

  constructor(
    readonly bytes: Uint8Array,
    readonly order: PairOrder,
    readonly wide: boolean,
  ) {
    const length = bytes.length;
    this.#next = new Int32Array(length + 1);
    this.#previous = new Int32Array(length + 1);
    this.#pair = new Int32Array(length + 1).fill(NONE);
    this.#heap = new PairHeap(length);
    this.#link();
  }

  #link(): void {
    const { length } = this.bytes;
    let last = 0;
    this.#previous[0] = NONE;
    for (let at = 1; at <= length; at += 1) {
      if (at < length && !startsPart(this.bytes[at] ?? 0, this.wide)) continue;
      this.#next[last] = at;
      this.#previous[at] = last;
      last = at;
    }
  }

  *run(): Generator<void, number[]> {
    const { length } = this.bytes;
    let seen = 0;
    for (let at = 0; at < length; at = this.#next[at] ?? length) {
      this.#offer(at);
      if (++seen % STEP_PAIRS === 0) yield;
    }
    for (let popped = 1; this.#heap.pop(); popped += 1) {
      if (this.#pair[this.#heap.at] === this.#heap.rank) this.#join(this.#heap.at);
      if (popped % STEP_PAIRS === 0) yield;
    }
    return this.#ends();
  }

  #offer(at: number): void {
    const order = this.#pairOrder(at);
    this.#pair[at] = order;
    if (order !== NONE) this.#heap.push(order, at);
  }

  #pairOrder(at: number): number {
    const second = this.#next[at] ?? 0;
    if (second >= this.bytes.length) return NONE;
    return this.order.orderOf(this.bytes, at, second, this.#next[second] ?? 0);
  }

  #join(at: number): void {
    const second = this.#next[at] ?? 0;
    const after = this.#next[second] ?? 0;
    this.#next[at] = after;
    this.#previous[after] = at;
    this.#pair[second] = NONE;
    this.#offer(at);
    const before = this.#previous[at] ?? NONE;
    if (before !== NONE) this.#offer(before);
  }

  #ends(): number[] {
    const ends: number[] = [];
    for (let at = 0; at < this.bytes.length; ) {
      at = this.#next[at] ?? this.bytes.length;
      ends.push(at);
    }
    return ends;
  }
}
