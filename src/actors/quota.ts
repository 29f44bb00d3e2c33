/**
 * Owns how many things, and how many bytes of them, each owner holds against a bound: caches, files.
 * It must never be asked to trust a caller's sum: what an owner held before is counted from the store, once.
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
  /** What to throw when `count` or `bytes` would be over its bound. */
  readonly refusal: (over: 'count' | 'bytes', max: Held) => Error;
}

/** A place taken before the write that fills it; taken until the thing is released. */
export interface Reservation {
  /** For a write that came to nothing. Further calls do nothing. */
  giveBack(): void;
  /** The write is in the store: from here on a new count would find it. Further calls do nothing. */
  kept(): void;
}

/** What one owner holds. */
interface Ledger {
  count: number;
  bytes: number;
  /** Settles when the count from the store is in; until then nothing may be added or taken away. */
  counted: Promise<void>;
  counting: boolean;
  /** Something was released while the store was walked: nobody knows whether the walk had come by. */
  disturbed: boolean;
  /** Reservations that are neither kept nor given back. */
  open: number;
}

export class Quota {
  readonly #parts: QuotaParts;
  /** Who reserved last stands last. */
  readonly #ledgers = new Map<string, Ledger>();

  constructor(parts: QuotaParts) {
    this.#parts = parts;
  }

  /** @throws what `refusal` makes; then nothing is taken. */
  async reserve(owner: string, bytes: number): Promise<Reservation> {
    const ledger = this.#ledgerOf(owner);
    ledger.open += 1;
    try {
      await ledger.counted;
      const { refusal } = this.#parts;
      const max = this.#parts.max(owner);
      if (ledger.count + 1 > max.count) throw refusal('count', max);
      if (ledger.bytes + bytes > max.bytes) throw refusal('bytes', max);
    } catch (cause) {
      ledger.open -= 1;
      throw cause;
    }
    ledger.count += 1;
    ledger.bytes += bytes;
    return reservation(ledger, bytes);
  }

  /** For what is gone from the store. An owner that was not counted yet will be counted without it. */
  release(owner: string, bytes: number): void {
    const ledger = this.#ledgers.get(owner);
    if (ledger?.counting) ledger.disturbed = true;
    else if (ledger) take(ledger, bytes);
  }

  /** Owners whose sums are in memory. */
  get ownerCount(): number {
    return this.#ledgers.size;
  }

  /** As counted and reserved so far; null for an owner that is not in memory. */
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

  /** Who goes is counted again when he comes back: so those first who have nothing on its way into the store. */
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
      // After the last attempt rather one too many is held than one too few.
      if (!ledger.disturbed) break;
    }
    ledger.counting = false;
  }
}

/** It stays with its own ledger: one that was counted anew meanwhile knows nothing of it. */
function reservation(ledger: Ledger, bytes: number): Reservation {
  let open = true;
  const close = (act: () => void) => {
    if (!open) return;
    open = false;
    ledger.open -= 1;
    act();
  };
  return {
    giveBack: () => close(() => take(ledger, bytes)),
    kept: () => close(() => {}),
  };
}

function take(ledger: Ledger, bytes: number): void {
  ledger.count = Math.max(0, ledger.count - 1);
  ledger.bytes = Math.max(0, ledger.bytes - bytes);
}
