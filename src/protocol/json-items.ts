/**
 * Owns items of a JSON list as text: as objects they would take ten times the memory.
 * It must never know what the items are.
 */
import { limits } from '../limits/index.js';

export class JsonItems {
  readonly #pieces: Uint8Array[] = [];
  #tail = '';
  #isEmpty = true;

  /** @param item its JSON. @returns the length of what was added. */
  add(item: string): number {
    this.#tail += this.#isEmpty ? item : `,${item}`;
    this.#isEmpty = false;
    if (this.#tail.length >= limits.replyWholeBytesMax) this.#pack();
    return item.length;
  }

  pieces(): readonly Uint8Array[] {
    this.#pack();
    return this.#pieces;
  }

  #pack(): void {
    this.#pieces.push(Buffer.from(this.#tail));
    this.#tail = '';
  }
}
