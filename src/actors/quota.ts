/**
 * Owns how many things, and how many bytes of them, each owner holds against a bound: caches, files.
 * It must never trust a sum from a caller: it counts from the store, once, what an owner held before.
 */
import { limits } from '../limits/index.js';

export interface Held {
  readonly count: number;
  readonly bytes: number;
}

export interface QuotaParts {
  /** Counted when the owner is first seen. */
  readonly held: (owner: string) => Promise<Held> | Held;
  readonly max: (owner: string) => Held;
  /** Makes the error to throw when `count` or `bytes` would exceed its bound. */
  readonly refusal: (over: 'count' | 'bytes', max: Held) => Error;
}

/** Room that is taken before a thing is written, and stays taken until the thing is released. */
export interface Reservation {
  /** Gives the room back after a write that failed. Further calls do nothing. */
  giveBack(): void;
  /** Says that the write is in the store, where a new count finds it. Further calls do nothing. */
  kept(): void;
}

/** What one owner holds. */
interface Ledger {
  count: number;
  bytes: number;
  /** Settles when the count from the store is known; until then nothing may be added or subtracted. */
  counted: Promise<void>;
  counting: boolean;
  /** Something was released during the count from the store, which may or may not have seen it. */
  disturbed: boolean;
  /** Reservations that are neither kept nor cancelled yet. */
  open: number;
}

export class Quota {
  readonly #parts: QuotaParts;
  /** The owner with the latest reservation is last. */
  readonly #ledgers = new Map<string, Ledger>();

  constructor(parts: QuotaParts) {
    this.#parts = parts;
  }

  /** @param count of things; 0 where one grows. @throws what `refusal` makes; then nothing is taken. */
  async reserve(owner: string, bytes: number, count = 1): Promise<Reservation> {
    const ledger = this.#ledgerOf(owner);
    ledger.open += 1;
    try {
      await ledger.counted;
      const { refusal } = this.#parts;
      const max = this.#parts.max(owner);
      if (ledger.count + count > max.count && count > 0) throw refusal('count', max);
      if (ledger.bytes + bytes > max.bytes) throw refusal('bytes', max);
    } catch (cause) {
      ledger.open -= 1;
      throw cause;
    }
    ledger.count += count;
    ledger.bytes += bytes;
    return reservation(ledger, { count, bytes });
  }

  /** For what is in the store without a place that was taken before. */
  add(owner: string, { count, bytes }: Held): void {
    this.release(owner, -bytes, -count);
  }

  /**
   * To be awaited before things are removed from the store: an owner that is counted first between the removal and its
   * `release` is counted without them, and would lose them once more. What cannot be counted has no sum, and must not keep
   * anything from being removed.
   */
  async counted(owner: string): Promise<void> {
    await this.held(owner).catch(() => {});
  }

  /** Says that a thing is gone from the store, after `counted`. An owner without a sum will be counted without it. */
  release(owner: string, bytes: number, count = 1): void {
    const ledger = this.#ledgers.get(owner);
    if (ledger?.counting) ledger.disturbed = true;
    else if (ledger) take(ledger, { count, bytes });
  }

  /** Owners whose sums are in memory. */
  get ownerCount(): number {
    return this.#ledgers.size;
  }

  /** As counted and reserved so far. */
  async held(owner: string): Promise<Held> {
    const ledger = this.#ledgerOf(owner);
    await ledger.counted;
    return { count: ledger.count, bytes: ledger.bytes };
  }

  /** The same; null for an owner that is not in memory. */
  async heldBy(owner: string): Promise<Held | null> {
    const ledger = this.#ledgers.get(owner);
    await ledger?.counted;
    return ledger ? { count: ledger.count, bytes: ledger.bytes } : null;
  }

  #ledgerOf(owner: string): Ledger {
    const ledger = this.#ledgers.get(owner) ?? this.#begin(owner);
    this.#ledgers.delete(owner);
    this.#ledgers.set(owner, ledger);
    return ledger;
  }

  #begin(owner: string): Ledger {
    if (this.#ledgers.size >= limits.quotaOwnersMax) this.#makeRoom();
    const ledger: Ledger = {
      count: 0,
      bytes: 0,
      open: 0,
      counting: true,
      disturbed: false,
      counted: Promise.resolve(),
    };
    ledger.counted = this.#count(owner, ledger);
    ledger.counted.catch(() => {
      if (this.#ledgers.get(owner) === ledger) this.#ledgers.delete(owner);
    });
    return ledger;
  }

  /** A removed owner must be counted again later, so owners without an open reservation are removed first. */
  #makeRoom(): void {
    const [oldest] = this.#ledgers.keys();
    const idle = [...this.#ledgers].find(([, { open, counting }]) => open === 0 && !counting);
    this.#ledgers.delete(idle?.[0] ?? oldest ?? '');
  }

  async #count(owner: string, ledger: Ledger): Promise<void> {
    for (let attempt = 0; attempt < limits.quotaCountsMax; attempt++) {
      ledger.disturbed = false;
      const { count, bytes } = await this.#parts.held(owner);
      Object.assign(ledger, { count, bytes });
      // After the last attempt a count that is one too high is accepted, rather than one too low.
      if (!ledger.disturbed) break;
    }
    ledger.counting = false;
  }
}

/** It stays with its own ledger: one that was counted anew meanwhile knows nothing of it. */
function reservation(ledger: Ledger, held: Held): Reservation {
  let open = true;
  const close = (act: () => void) => {
    if (!open) return;
    open = false;
    ledger.open -= 1;
    act();
  };
  return {
    giveBack: () => close(() => take(ledger, held)),
    kept: () => close(() => {}),
  };
}

function take(ledger: Ledger, { count, bytes }: Held): void {
  ledger.count = Math.max(0, ledger.count - count);
  ledger.bytes = Math.max(0, ledger.bytes - bytes);
}
