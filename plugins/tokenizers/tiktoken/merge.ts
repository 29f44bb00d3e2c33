/**
 * Owns byte-pair merging of one long piece in O(n log n): a heap of pairs over a linked list of parts.
 * It must give the very ranks of the plain algorithm: lowest rank first, the leftmost of equals.
 */
import type { Vocabulary } from 'preface/plugin';
import { PairHeap } from './pair-heap.js';

const NONE = -1;

/** Finds the rank of a byte string: open addressing over the packed tokens, no strings made. */
export class RankTable {
  readonly #slots: Int32Array;
  readonly #mask: number;
  #lengthMax = 0;

  constructor(readonly ranks: Vocabulary) {
    const count = ranks.offsets.length - 1;
    const size = 2 ** Math.ceil(Math.log2(count * 2 + 2));
    this.#slots = new Int32Array(size).fill(NONE);
    this.#mask = size - 1;
    for (let rank = 0; rank < count; rank += 1) this.#add(rank);
  }

  /** Rank of `bytes[start..end)`, or -1. */
  find(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start;
    if (length > this.#lengthMax) return NONE;
    let slot = hashOf(bytes, start, end) & this.#mask;
    for (;;) {
      const rank = this.#slots[slot] ?? NONE;
      if (rank === NONE || this.#equals(rank, bytes, start, length)) return rank;
      slot = (slot + 1) & this.#mask;
    }
  }

  #add(rank: number): void {
    const { bytes, offsets } = this.ranks;
    const start = offsets[rank] ?? 0;
    const end = offsets[rank + 1] ?? 0;
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
  return yield* new Merge(bytes, table).run();
}

/** Parts are named by the byte they begin at; `#next` of the last one is the length. */
class Merge {
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  /** Rank of each part joined with the one after it: an entry of the heap that says another is stale. */
  readonly #pair: Int32Array;
  readonly #heap: PairHeap;

  constructor(
    readonly bytes: Uint8Array,
    readonly table: RankTable,
  ) {
    const length = bytes.length;
    this.#next = Int32Array.from({ length: length + 1 }, (_, at) => at + 1);
    this.#previous = Int32Array.from({ length: length + 1 }, (_, at) => at - 1);
    this.#pair = new Int32Array(length + 1).fill(NONE);
    this.#heap = new PairHeap(length);
  }

  *run(): Generator<void, Uint32Array> {
    for (let at = 0; at + 1 < this.bytes.length; at += 1) {
      this.#offer(at);
      if (at % STEP_PAIRS === STEP_PAIRS - 1) yield;
    }
    for (let popped = 1; this.#heap.pop(); popped += 1) {
      if (this.#pair[this.#heap.at] === this.#heap.rank) this.#join(this.#heap.at);
      if (popped % STEP_PAIRS === 0) yield;
    }
    return this.#ranks();
  }

  #offer(at: number): void {
    const rank = this.#pairRank(at);
    this.#pair[at] = rank;
    if (rank !== NONE) this.#heap.push(rank, at);
  }

  #pairRank(at: number): number {
    const second = this.#next[at] ?? 0;
    if (second >= this.bytes.length) return NONE;
    return this.table.find(this.bytes, at, this.#next[second] ?? 0);
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

  #ranks(): Uint32Array {
    const ranks: number[] = [];
    for (let at = 0; at < this.bytes.length; at = this.#next[at] ?? this.bytes.length) {
      ranks.push(this.table.find(this.bytes, at, this.#next[at] ?? this.bytes.length));
    }
    return Uint32Array.from(ranks);
  }
}
