/**
 * Owns when commits leave for the disk: those that come while others are on their way leave together, after them.
 * It must never change their order, nor let one wait that has nobody before it.
 *
 * LMDB has one writer, and begins a transaction for whatever is there: under load that is one for each commit, and
 * pages, thread and flush of its own for each. In groups, 64 creations at once take a fifth of the transactions.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Settles without rejecting. */
type Member = () => Promise<void>;

export class CommitGroups {
  /** Settles when all that was written so far is on the disk, or will not be. */
  readonly #flushed: () => Promise<unknown>;
  #waiting: Member[] = [];
  #running: Promise<void> | null = null;

  constructor(flushed: () => Promise<unknown>) {
    this.#flushed = flushed;
  }

  /** Resolves and rejects as `write` does, which is called in its turn. */
  run<Result>(write: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => write().then(resolve, reject));
      this.#running ??= this.#run();
    });
  }

  /** Resolves when nothing waits and nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // Requests that are read in one turn of the event loop commit in one group.
    await nextTurn();
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      await Promise.all(group.map((member) => member()));
      await this.#flushed().catch(() => {});
    }
    this.#running = null;
  }
}
