/**
 * Owns the way from the bytes of one piece of text to its ids: neighbouring parts are joined, what is left are tokens.
 * It must give the ids of the plain algorithm, in O(n log n) for any piece, and remember nothing of a text.
 */
import { mergedEnds, type PairOrder, type RankTable, startsPart } from '../shared/merge.js';

/** What the pieces of a vocabulary are made from. */
export interface PieceTables {
  /** Finds the id of a token's bytes; those that no text may become are not in it. */
  readonly tokens: RankTable;
  readonly order: PairOrder;
  /** Parts are characters at first, not bytes. */
  readonly wide: boolean;
  /** Ids of bytes that stand outside every token; -1: there is none. */
  readonly idOfByte: Int32Array;
  /** Stands for a part that is no token and whose bytes have no ids; -1: it is dropped. */
  readonly unknownId: number;
  /** Whether a piece that is a token needs no joining. */
  isWhole(piece: Uint8Array): boolean;
}

/** Grows as ids come. */
export class IdList {
  #ids = new Uint32Array(64);
  #count = 0;

  push(id: number): void {
    if (this.#count === this.#ids.length) {
      const larger = new Uint32Array(this.#count * 2);
      larger.set(this.#ids);
      this.#ids = larger;
    }
    this.#ids[this.#count++] = id;
  }

  take(): Uint32Array {
    return this.#ids.slice(0, this.#count);
  }
}

/** A longer piece goes through the heap. */
const SHORT_BYTES = 96;

const NOT_TRIED = 0;
const JOINED = 1;
const CUT = 2;

export class PieceEncoder {
  readonly #starts = new Int32Array(SHORT_BYTES + 1);
  readonly #orders = new Int32Array(SHORT_BYTES + 1);
  /** Whether a token's own bytes are joined to it: a fact of the vocabulary, found when it is first needed. */
  readonly #joined: Uint8Array;

  constructor(readonly tables: PieceTables) {
    this.#joined = new Uint8Array(tables.tokens.ranks.offsets.length);
  }

  *encode(piece: Uint8Array, out: IdList): Generator<void, void> {
    const { tokens, wide, order } = this.tables;
    const whole = tokens.find(piece, 0, piece.length);
    if (whole >= 0 && (this.tables.isWhole(piece) || this.#joined[whole] === JOINED)) {
      out.push(whole);
      return;
    }
    if (piece.length > SHORT_BYTES) {
      let start = 0;
      for (const end of yield* mergedEnds(piece, order, wide)) {
        this.#part(piece, start, end, out);
        start = end;
      }
      return;
    }
    const count = this.#joinShort(piece);
    if (whole >= 0 && this.#joined[whole] === NOT_TRIED)
      this.#joined[whole] = count === 1 ? JOINED : CUT;
    for (let at = 0; at < count; at += 1) {
      this.#part(piece, this.#starts[at] ?? 0, this.#starts[at + 1] ?? 0, out);
    }
  }

  /** The plain algorithm. @returns the number of parts, whose starts are kept. */
  #joinShort(piece: Uint8Array): number {
    const starts = this.#starts;
    const orders = this.#orders;
    let count = 0;
    for (let at = 0; at < piece.length; at += 1) {
      if (at === 0 || startsPart(piece[at] ?? 0, this.tables.wide)) starts[count++] = at;
    }
    starts[count] = piece.length;
    for (let at = 0; at < count; at += 1) orders[at] = this.#orderAt(piece, at, count);
    for (;;) {
      const lowest = lowestOf(orders, count);
      if (lowest < 0) return count;
      starts.copyWithin(lowest + 1, lowest + 2, count + 1);
      orders.copyWithin(lowest + 1, lowest + 2, count);
      count -= 1;
      orders[lowest] = this.#orderAt(piece, lowest, count);
      if (lowest > 0) orders[lowest - 1] = this.#orderAt(piece, lowest - 1, count);
    }
  }

  #orderAt(piece: Uint8Array, at: number, count: number): number {
    if (at + 1 >= count) return -1;
    const starts = this.#starts;
    const [start = 0, middle = 0, end = 0] = [starts[at], starts[at + 1], starts[at + 2]];
    return this.tables.order.orderOf(piece, start, middle, end);
  }

  #part(piece: Uint8Array, start: number, end: number, out: IdList): void {
    const { tokens, idOfByte, unknownId } = this.tables;
    const id = tokens.find(piece, start, end);
    if (id >= 0) {
      out.push(id);
      return;
    }
    let known = 0;
    for (let at = start; at < end; at += 1) {
      const byte = idOfByte[piece[at] ?? 0] ?? -1;
      if (byte < 0) continue;
      out.push(byte);
      known += 1;
    }
    if (known === 0 && unknownId >= 0) out.push(unknownId);
  }
}

function lowestOf(orders: Int32Array, count: number): number {
  let lowest = -1;
  let best = 0x7f_ff_ff_ff;
  for (let at = 0; at < count; at += 1) {
    const order = orders[at] ?? -1;
    if (order < 0 || order >= best) continue;
    lowest = at;
    best = order;
  }
  return lowest;
}
