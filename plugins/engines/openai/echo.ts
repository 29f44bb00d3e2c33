/**
 * Owns what an answer says again before it goes on: the beginning that it was given, in however many parts.
 * It must never leave out more than that, and nothing of an answer that begins otherwise.
 */

export class Echo {
  #held = '';
  #isOver: boolean;

  constructor(readonly text: string) {
    this.#isOver = text === '';
  }

  /** @returns what of this part belongs to the answer, and of the parts before that were held back. */
  without(part: string): string {
    if (this.#isOver) return part;
    this.#held += part;
    if (this.#held.length < this.text.length && this.text.startsWith(this.#held)) return '';
    this.#isOver = true;
    return this.#held.startsWith(this.text) ? this.#held.slice(this.text.length) : this.#held;
  }

  /** The answer is over: what was held back was no repetition after all. */
  end(): string {
    if (this.#isOver) return '';
    this.#isOver = true;
    return this.#held;
  }
}
