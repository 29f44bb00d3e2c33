/**
 * Owns the list of readers that keep a place in the engine because they do not read: which one is cut for a chat that waits.
 * It must never cut a reader by itself, nor the one of an owner with few before those of an owner with many.
 */
import { OwnerLoad } from '../fairness/owner-load.js';

/** Someone who has kept a generation waiting for `limits.streamStalledMsMax` in all, and does so now. */
export interface StalledReader {
  readonly chat: { readonly owner: string };
  /** Ends the connection, and with it the generation, soon. */
  cut(): void;
}

export class StalledReaders {
  readonly #readers = new Set<StalledReader>();
  readonly #load = new OwnerLoad();

  add(reader: StalledReader): void {
    this.#readers.add(reader);
    this.#load.add(reader.chat.owner);
  }

  /** Nothing happens to one that was taken. */
  remove(reader: StalledReader): void {
    if (this.#readers.delete(reader)) this.#load.remove(reader.chat.owner);
  }

  /** @returns the first of the owner with the most, of those owners that may lose one. */
  take(mayLose: (owner: string) => boolean): StalledReader | null {
    let most: StalledReader | null = null;
    for (const reader of this.#readers) {
      const { owner } = reader.chat;
      const count = most === null ? 0 : this.#load.of(most.chat.owner).count;
      if (this.#load.of(owner).count > count && mayLose(owner)) most = reader;
    }
    if (most !== null) this.remove(most);
    return most;
  }
}
