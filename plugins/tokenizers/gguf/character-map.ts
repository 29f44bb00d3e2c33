/**
 * Owns the normalization that a vocabulary of SentencePiece carries: texts that stand for others, the longest first.
 * It must never read outside the map, whatever the file says.
 *
 * The map is a compact double array: the node below `n` by the byte `c` is `base(n) ^ c`, and its check is `c`.
 */

const encoder = new TextEncoder();
/** Bytes between two pauses. */
const STEP_BYTES = 16_384;

export class CharacterMap {
  readonly entries: Uint8Array;
  readonly #nodes: Uint32Array;
  readonly #texts: Uint8Array;

  /** @param entries the bytes: four with the size of the array, the array, then texts that end with a zero. */
  constructor(entries: readonly number[]) {
    const bytes = Uint8Array.from(entries);
    this.entries = bytes;
    const size = bytes.length < 4 ? 0 : new DataView(bytes.buffer).getUint32(0, true);
    if (size + 4 > bytes.length && bytes.length > 0)
      throw new Error('its precompiled_charsmap is cut short');
    this.#nodes = new Uint32Array(bytes.slice(4, 4 + (size & ~3)).buffer);
    this.#texts = bytes.slice(4 + size);
  }

  /** Text with everything replaced that the map knows. */
  *mapped(text: string): Generator<void, string> {
    if (this.#nodes.length === 0) return text;
    const bytes = encoder.encode(text);
    const parts: Uint8Array[] = [];
    let kept = 0;
    for (let at = 0; at < bytes.length; ) {
      const found = this.#longest(bytes, at);
      if (found !== null) {
        parts.push(bytes.subarray(kept, at), found.text);
        kept = at + found.length;
      }
      const next = found === null ? characterEnd(bytes, at) : kept;
      if (Math.floor(at / STEP_BYTES) !== Math.floor(next / STEP_BYTES)) yield;
      at = next;
    }
    parts.push(bytes.subarray(kept));
    return Buffer.concat(parts).toString();
  }

  #longest(bytes: Uint8Array, start: number): { length: number; text: Uint8Array } | null {
    let length = 0;
    let value = 0;
    let node = this.#base(0);
    for (let at = start; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0;
      node ^= byte;
      const entry = this.#nodes[node];
      if (byte === 0 || entry === undefined || (entry & CHECK) >>> 0 !== byte) break;
      const isLeaf = ((entry >>> 8) & 1) === 1;
      node ^= this.#base(node);
      if (!isLeaf) continue;
      length = at + 1 - start;
      value = (this.#nodes[node] ?? 0) & VALUE;
    }
    return length === 0 ? null : { length, text: this.#textAt(value) };
  }

  #base(node: number): number {
    const entry = this.#nodes[node] ?? 0;
    return (entry >>> 10) << ((entry & 0x2_00) >>> 6);
  }

  #textAt(start: number): Uint8Array {
    const end = this.#texts.indexOf(0, start);
    return this.#texts.subarray(start, end < 0 ? start : end);
  }
}

const CHECK = 0x80_00_00_ff;
const VALUE = 0x7f_ff_ff_ff;

function characterEnd(bytes: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end += 1;
  return end;
}
