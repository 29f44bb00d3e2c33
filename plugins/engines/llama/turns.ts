/**
 * Owns the order of work that is done beside the decode loop: one piece at a time, and the owners in turns.
 * It must never let the pieces of one owner stand before the first of another.
 */
import { limits } from 'preface/plugin';

type Piece = () => Promise<void>;

export class Turns {
  readonly #waiting = new Map<string, Piece[]>();
  #count = 0;
  #running: Promise<void> | null = null;

  /** @throws Error with `code: 'overloaded'` when too much waits. */
  run<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
    if (this.#count >= limits.engineQueueMax) {
      const message = `more than ${limits.engineQueueMax} pieces of grammar work wait`;
      return Promise.reject(Object.assign(new Error(message), { code: 'overloaded' }));
    }
    const result = new Promise<Result>((resolve, reject) => {
      const piece = () => work().then(resolve, reject);
      this.#waiting.set(owner, [...(this.#waiting.get(owner) ?? []), piece]);
      this.#count++;
    });
    this.#running ??= this.#run();
    return result;
  }

  /** Resolves when nothing is at work and nothing waits. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // Owners who ask in the same moment take turns from the first piece on.
    await null;
    for (let piece = this.#next(); piece; piece = this.#next()) await piece();
    this.#running = null;
  }

  /** The oldest piece of the owner that waited longest for a turn; the owner goes to the end. */
  #next(): Piece | null {
    const [first] = this.#waiting;
    if (!first) return null;
    const [owner, [piece, ...rest]] = first;
    this.#waiting.delete(owner);
    if (rest.length > 0) this.#waiting.set(owner, rest);
    this.#count--;
    return piece ?? null;
  }
}
