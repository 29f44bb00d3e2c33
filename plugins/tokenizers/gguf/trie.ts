/**
 * Owns the search for the tokens that begin at a place of a text, byte by byte.
 * It must never keep an object for a node: vocabularies have a million of them.
 */
import type { Vocabulary } from 'preface/plugin';

const NONE = -1;

export class TokenTrie {
  /** Open addressing: the edge of node `n` by byte `b` has the key `n * 256 + b`. */
  #keys: Float64Array;
  #children: Int32Array;
  #ids: Int32Array;
  #mask: number;
  #nodes = 1;

  /** Tokens without a byte are left out. */
  constructor({ bytes, offsets }: Vocabulary) {
    const most = bytes.length + 1;
    const size = 2 ** Math.ceil(Math.log2(most * 2));
    this.#keys = new Float64Array(size).fill(NONE);
    this.#children = new Int32Array(size);
    this.#ids = new Int32Array(most).fill(NONE);
    this.#mask = size - 1;
    for (let id = 0; id + 1 < offsets.length; id += 1) {
      const token = bytes.subarray(offsets[id], offsets[id + 1]);
      if (token.length > 0) this.#add(token, id);
    }
  }

  get root(): number {
    return 0;
  }

  /** -1 where no token goes on with this byte. */
  child(node: number, byte: number): number {
    const slot = this.#slotOf(node * 256 + byte);
    return this.#keys[slot] === NONE ? NONE : (this.#children[slot] ?? NONE);
  }

  /** The token that ends at a node, or -1. */
  idAt(node: number): number {
    return this.#ids[node] ?? NONE;
  }

  #add(token: Uint8Array, id: number): void {
    let node = 0;
    for (const byte of token) {
      const slot = this.#slotOf(node * 256 + byte);
      if (this.#keys[slot] === NONE) {
        this.#keys[slot] = node * 256 + byte;
        this.#children[slot] = this.#nodes++;
      }
      node = this.#children[slot] ?? 0;
    }
    this.#ids[node] = id;
  }

  #slotOf(key: number): number {
    // Keys reach beyond 32 bits: both halves are mixed.
    const mixed = Math.imul((key / 256) | 0, 0x9e_37_79_b1) ^ Math.imul(key & 0xff, 0x85_eb_ca_6b);
    let slot = (mixed ^ (mixed >>> 15)) & this.#mask;
    while (this.#keys[slot] !== NONE && this.#keys[slot] !== key) slot = (slot + 1) & this.#mask;
    return slot;
  }
}
