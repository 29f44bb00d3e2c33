/**
 * Owns which chat a model begins next: no more than it runs at once, the owners in turn, and how much may wait.
 * It must never begin a chat on an engine that is gone, nor let one owner fill the room that is there for all.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import { FairQueue } from '../pool/fair-queue.js';

export interface Turn {
  readonly owner: string;
  /** Tokens to evaluate and to generate, at most. */
  readonly work: number;
  begin(): void;
  /** Instead of `begin`. */
  refuse(error: ApiError): void;
}

export interface TurnsOptions {
  /** Chats that run at the same time. */
  readonly places: number;
  /** Chats that may wait; one owner may have a part of them. */
  readonly waitingMax: number;
  /** Their work together; `limits.queueWorkMax` if absent. */
  readonly workMax?: number;
  /** Whether the engine is there. */
  readonly serving: () => boolean;
}

/** What waits, of one owner or of all. */
interface Held {
  count: number;
  work: number;
}

const NOTHING: Readonly<Held> = { count: 0, work: 0 };

/** Part of the newest chat in the mean of their times. */
const MEAN_WEIGHT = 0.1;

export class Turns {
  readonly #waiting = new FairQueue<Turn>();
  readonly #all: Held = { count: 0, work: 0 };
  /** Those that have something waiting. */
  readonly #owners = new Map<string, Held>();
  #running = 0;
  #meanMs: number | null = null;

  constructor(readonly options: TurnsOptions) {}

  get waiting(): Readonly<Held> {
    return this.#all;
  }

  /** Begins it now or later, or refuses it: 429 `overloaded` with the time after which there may be room. */
  enter(turn: Turn): void {
    if (this.#all.count === 0 && this.#running < this.options.places) {
      this.#begin(turn);
      return;
    }
    const refusal = this.#refusal(turn);
    if (refusal !== null) {
      turn.refuse(refusal);
      return;
    }
    this.#waiting.push(turn.owner, turn);
    this.#hold(turn, 1);
  }

  /** One that was begun has ended. null: in a way that says nothing of how long chats take. */
  leave(ranMs: number | null): void {
    const before = this.#meanMs ?? ranMs ?? 0;
    if (ranMs !== null) this.#meanMs = before + (ranMs - before) * MEAN_WEIGHT;
    this.#running -= 1;
    this.pump();
  }

  /** @returns whether it waited here; then it is never begun. */
  drop(turn: Turn): boolean {
    const waited = this.#waiting.remove(turn.owner, turn);
    if (waited) this.#hold(turn, -1);
    return waited;
  }

  /** Begins what there are places for; called again when the engine is back. */
  pump(): void {
    while (this.#running < this.options.places && this.options.serving()) {
      const turn = this.#waiting.shift();
      if (turn === undefined) return;
      this.#hold(turn, -1);
      this.#begin(turn);
    }
  }

  /** There is no telling when the engine comes back. */
  refuseAll(error: ApiError): void {
    for (const turn of this.#waiting.drain()) {
      this.#hold(turn, -1);
      turn.refuse(error);
    }
  }

  #begin(turn: Turn): void {
    this.#running += 1;
    turn.begin();
  }

  #hold({ owner, work }: Turn, change: 1 | -1): void {
    const own = this.#owners.get(owner) ?? { ...NOTHING };
    for (const held of [own, this.#all]) {
      held.count += change;
      held.work += change * work;
    }
    if (own.count === 0) this.#owners.delete(owner);
    else this.#owners.set(owner, own);
  }

  #refusal(turn: Turn): ApiError | null {
    const { waitingMax: count, workMax: work = limits.queueWorkMax } = this.options;
    const share = limits.queueOwnerShareMax;
    const own = this.#owners.get(turn.owner) ?? NOTHING;
    const ownMax = { count: Math.ceil(count * share), work: work * share };
    const excess = Math.max(
      excessOf(this.#all, turn, { count, work }),
      // While others wait as well, only each so many-th place is this owner's.
      excessOf(own, turn, ownMax) * Math.max(1, this.#owners.size),
    );
    if (excess === 0) return null;
    return new ApiError('overloaded', {}, { retryAfterMs: this.#msFor(excess) });
  }

  /** Until so many chats have ended, as long as they take at present. */
  #msFor(chats: number): number {
    const ms = (chats * (this.#meanMs ?? 0)) / this.options.places;
    return Math.min(Math.max(Math.ceil(ms), limits.queueRetryMsMin), limits.queueRetryMsMax);
  }
}

/** Chats that must be gone before this one fits; a lone one always does. */
function excessOf(held: Readonly<Held>, { work }: Turn, max: Readonly<Held>): number {
  if (held.count === 0) return 0;
  const tooMuch = Math.max(0, held.work + work - max.work);
  const ofWork = Math.min(held.count, Math.ceil(tooMuch / (held.work / held.count || 1)));
  return Math.max(held.count >= max.count ? 1 : 0, ofWork);
}
