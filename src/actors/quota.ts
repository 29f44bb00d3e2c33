/**
 * Owns how many things, and how many bytes of them, each owner holds against a bound: caches, files.
 * It must never be asked to trust a caller's sum: what an owner held before is counted from the store, once.
 */

export interface Held {
  readonly count: number;
  readonly bytes: number;
}

export interface QuotaParts {
  /** Counted when the owner is first seen. */
  readonly held: (owner: string) => Promise<Held> | Held;
  readonly max: Held;
  /** What to throw when `count` or `bytes` would be over its bound. */
  readonly refusal: (over: 'count' | 'bytes', max: Held) => Error;
}

/** A place taken before the write that fills it; kept unless it is given back. */
export interface Reservation {
  /** For a write that came to nothing. Further calls do nothing. */
  giveBack(): void;
}

export class Quota {
  readonly #parts: QuotaParts;
  /** Promises while the owner is counted, so that it is counted once. */
  readonly #owners = new Map<string, Promise<{ count: number; bytes: number }>>();

  constructor(parts: QuotaParts) {
    this.#parts = parts;
  }

  /** @throws what `refusal` makes; then nothing is taken. */
  async reserve(owner: string, bytes: number): Promise<Reservation> {
    const held = await this.#of(owner);
    const { max, refusal } = this.#parts;
    if (held.count + 1 > max.count) throw refusal('count', max);
    if (held.bytes + bytes > max.bytes) throw refusal('bytes', max);
    held.count += 1;
    held.bytes += bytes;
    let open = true;
    return {
      giveBack: () => {
        if (open) this.release(owner, bytes);
        open = false;
      },
    };
  }

  /** For what is gone from the store. An owner that was not counted yet will be counted without it. */
  release(owner: string, bytes: number): void {
    void this.#owners.get(owner)?.then((held) => {
      held.count -= 1;
      held.bytes -= bytes;
    });
  }

  #of(owner: string): Promise<{ count: number; bytes: number }> {
    const known = this.#owners.get(owner);
    if (known !== undefined) return known;
    const counting = Promise.resolve(this.#parts.held(owner)).then((held) => ({ ...held }));
    this.#owners.set(owner, counting);
    counting.catch(() => this.#owners.delete(owner));
    return counting;
  }
}
