/**
 * Owns the states that stay in memory: which are held, and the bound on their bytes, in all and for one owner.
 * It must never hold a state that was not just checked, nor one that is not wanted any more.
 */

/** A state as its file holds it. */
export interface PinnedState {
  /** Hash of the owner. */
  readonly owner: string;
  readonly bytes: Buffer;
}

/** What is to be held. */
export interface Wanted {
  readonly key: string;
  readonly owner: string;
  readonly bytes: number;
  /** Null where the state is not there, or damaged. */
  read(): Promise<Buffer | null>;
  /** Whether it still is to be, after the read. */
  isWanted(): boolean;
}

/** One owner's share of the bound. */
const OWNER_SHARE = 0.5;

export class Pins {
  readonly #held = new Map<string, PinnedState>();
  /** One read after the other, so that the bound holds. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly bytesMax: number) {}

  find(key: string): PinnedState | null {
    return this.#held.get(key) ?? null;
  }

  /** Whether it is held then: false where there is no room. */
  hold(wanted: Wanted): Promise<boolean> {
    const held = this.#turn.then(() => this.#hold(wanted));
    this.#turn = held.catch(() => {});
    return held;
  }

  async #hold(wanted: Wanted): Promise<boolean> {
    const { key, owner } = wanted;
    if (this.#held.has(key)) return true;
    if (!this.#hasRoom(wanted)) return false;
    const bytes = await wanted.read();
    if (bytes === null || !wanted.isWanted()) return false;
    this.#held.set(key, { owner, bytes });
    return true;
  }

  #hasRoom({ owner, bytes }: Wanted): boolean {
    const all = [...this.#held.values()];
    const sum = (states: readonly PinnedState[]) =>
      states.reduce((total, state) => total + state.bytes.length, bytes);
    const own = sum(all.filter((state) => state.owner === owner));
    return sum(all) <= this.bytesMax && own <= this.bytesMax * OWNER_SHARE;
  }

  drop(key: string): void {
    this.#held.delete(key);
  }
}
