/**
 * Owns the removal of a repeated beginning: some servers repeat the message that they continue, in any number of parts.
 * It must never remove more than that message, nor any of an answer that begins differently.
 */

export class Echo {
  #held = '';
  #isOver: boolean;

  constructor(readonly text: string) {
    this.#isOver = text === '';
  }

  /** @returns the text of this part, and of earlier parts that were held back, that belongs to the answer. */
  without(part: string): string {
    if (this.#isOver) return part;
    this.#held += part;
    if (this.#held.length < this.text.length && this.text.startsWith(this.#held)) return '';
    this.#isOver = true;
    return this.#held.startsWith(this.text) ? this.#held.slice(this.text.length) : this.#held;
  }

  /** At the end of the answer. @returns the text that was held back, since it was no complete repetition. */
  end(): string {
    if (this.#isOver) return '';
    this.#isOver = true;
    return this.#held;
  }
}
