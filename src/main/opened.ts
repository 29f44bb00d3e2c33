/**
 * Owns the open parts and the order in which they are closed: the last opened first.
 * It must never know what any part is.
 */

export class Opened {
  readonly #closers: (() => Promise<void> | void)[] = [];

  add<Part>(part: Part, close: (part: Part) => Promise<void> | void): Part {
    this.#closers.push(() => close(part));
    return part;
  }

  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}
