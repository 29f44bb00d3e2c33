/**
 * Owns which chat a model begins next: as many as it runs at once, owners take turns, and the waiting chats are bounded.
 * It must never begin a chat on an engine that is gone, nor let one owner fill the queue of all.
 */
import { ApiError } from '../errors.js';
import { FairQueue } from '../fairness/fair-queue.js';
import { type Load, OwnerLoad } from '../fairness/owner-load.js';
import { limits } from '../limits/index.js';

/** A chat that wants to begin. */
export interface Entrant {
  readonly owner: string;
  /** Tokens to evaluate and to generate, at most. */
  readonly work: number;
  begin(): void;
  /** Instead of `begin`. */
  refuse(error: ApiError): void;
}

export interface AdmissionOptions {
  /** Chats that run at the same time. */
  readonly places: number;
  /** Chats that may wait; one owner may have a part of them. */
  readonly waitingMax: number;
  /** Their work together; `limits.queueWorkMax` if absent. */
  readonly workMax?: number;
  /** Whether the engine is there. */
  readonly serving: () => boolean;
}

/** Weight of the newest chat in the mean of their times. */
const MEAN_WEIGHT = 0.1;

export class AdmissionQueue {
  readonly #queue = new FairQueue<Entrant>();
  readonly #waiting = new OwnerLoad();
  #running = 0;
  #meanMs: number | null = null;

  constructor(readonly options: AdmissionOptions) {}

  get waiting(): Load {
    return this.#waiting.total;
  }

  /** Begins it now or later, or refuses it: 429 `overloaded` with the time after which there may be room. */
  enter(chat: Entrant): void {
    if (this.#waiting.total.count === 0 && this.#running < this.options.places) {
      this.#begin(chat);
      return;
    }
    const refusal = this.#refusal(chat);
    if (refusal !== null) {
      chat.refuse(refusal);
      return;
    }
    this.#queue.push(chat.owner, chat);
    this.#waiting.add(chat.owner, chat.work);
  }

  /** A chat that was begun has ended. @param ranMs null when it ended in a way that tells nothing of a chat's time. */
  leave(ranMs: number | null): void {
    const before = this.#meanMs ?? ranMs ?? 0;
    if (ranMs !== null) this.#meanMs = before + (ranMs - before) * MEAN_WEIGHT;
    this.#running -= 1;
    this.pump();
  }

  /** @returns whether it waited here; then it is never begun. */
  drop(chat: Entrant): boolean {
    const waited = this.#queue.remove(chat.owner, chat);
    if (waited) this.#waiting.remove(chat.owner, chat.work);
    return waited;
  }

  /** Begins as many as there are places for. Also called when the engine is back. */
  pump(): void {
    while (this.#running < this.options.places && this.options.serving()) {
      const chat = this.#queue.shift();
      if (chat === undefined) return;
      this.#waiting.remove(chat.owner, chat.work);
      this.#begin(chat);
    }
  }

  /** For an engine that is gone: nobody knows when it comes back. */
  refuseAll(error: ApiError): void {
    for (const chat of this.#queue.drain()) {
      this.#waiting.remove(chat.owner, chat.work);
      chat.refuse(error);
    }
  }

  #begin(chat: Entrant): void {
    this.#running += 1;
    chat.begin();
  }

  #refusal(chat: Entrant): ApiError | null {
    const { waitingMax: count, workMax: work = limits.queueWorkMax } = this.options;
    const share = limits.queueOwnerShareMax;
    const ownMax = { count: Math.ceil(count * share), work: work * share };
    const excess = Math.max(
      excessOf(this.#waiting.total, chat, { count, work }),
      // While n owners wait, only every n-th chat that begins is this owner's.
      excessOf(this.#waiting.of(chat.owner), chat, ownMax) * Math.max(1, this.#waiting.ownerCount),
    );
    if (excess === 0) return null;
    return new ApiError('overloaded', {}, { retryAfterMs: this.#msFor(excess) });
  }

  /** The time until so many chats have ended, at their present mean time. */
  #msFor(chats: number): number {
    const ms = (chats * (this.#meanMs ?? 0)) / this.options.places;
    return Math.min(Math.max(Math.ceil(ms), limits.queueRetryMsMin), limits.queueRetryMsMax);
  }
}

/** Number of chats that must end before this one fits. It always fits into an empty queue. */
function excessOf(held: Load, { work }: Entrant, max: Load): number {
  if (held.count === 0) return 0;
  const tooMuch = Math.max(0, held.work + work - max.work);
  const ofWork = Math.min(held.count, Math.ceil(tooMuch / (held.work / held.count || 1)));
  return Math.max(held.count >= max.count ? 1 : 0, ofWork);
}
