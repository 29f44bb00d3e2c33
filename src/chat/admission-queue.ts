/**
 * Owns which chat a model begins next: as many as it runs at once, owners take turns, and the waiting chats are bounded.
 * It must never begin a chat on an engine that is gone, nor let owners who fill the queue keep out one who has less in it.
 */
import { ApiError } from '../errors.js';
import { FairQueue } from '../fairness/fair-queue.js';
import { type Load, OwnerLoad } from '../fairness/owner-load.js';
import { limits } from '../limits/index.js';
import { type StalledReader, StalledReaders } from './stalled-readers.js';

/** A chat that wants to begin. */
export interface Entrant {
  readonly owner: string;
  /** Tokens to evaluate and to generate, at most. */
  readonly work: number;
  /** Begins in places alone that nobody else wants, and gives its place back to who does. */
  readonly isBackground?: boolean;
  /** It has several answers, which may come one after another. */
  readonly isSeveral?: boolean;
  begin(): void;
  /** Ends one of the background that has begun, soon. */
  preempt?(): void;
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
  /** See `EngineModel.goesRound`. */
  readonly goesRound?: boolean;
}

/** Weight of the newest chat in the mean of their times. */
const MEAN_WEIGHT = 0.1;

export class AdmissionQueue {
  readonly #queue = new FairQueue<Entrant>();
  readonly #waiting = new OwnerLoad();
  readonly #background = new FairQueue<Entrant>();
  /** Those of the background that run, the newest last, without those that were told to end. */
  readonly #backgroundRunning = new Set<Entrant>();
  readonly #stalled = new StalledReaders();
  /** Chats whose readers were cut, until their generations have ended. */
  readonly #cut = new Set<object>();
  #running = 0;
  /** Chats with several answers that run. */
  readonly #several = new OwnerLoad();
  #meanMs: number | null = null;

  constructor(readonly options: AdmissionOptions) {}

  get waiting(): Load {
    return this.#waiting.total;
  }

  /** Begins it now or later, or refuses it: 429 `overloaded` with the time after which there may be room. */
  enter(chat: Entrant): void {
    if (chat.isBackground) {
      this.#background.push(chat.owner, chat);
      this.pump();
      return;
    }
    if (this.#hasRoom(chat.owner) && !this.#isAwaited) {
      this.#begin(chat);
      return;
    }
    const refusal = this.#refusal(chat);
    if (refusal !== null && !this.#makeRoom(chat)) {
      chat.refuse(refusal);
      return;
    }
    this.#queue.push(chat.owner, chat);
    this.#waiting.add(chat.owner, chat.work);
    this.#preempt();
    this.#cutStalled();
  }

  /**
   * Beyond its places, an engine that goes round has a chat of another owner with it for each that has several answers: so
   * that chat is next when one of them is done, and does not wait for all.
   */
  #hasRoom(owner: string): boolean {
    const { places, goesRound = false } = this.options;
    if (this.#running < places) return true;
    const others = this.#several.total.count - this.#several.of(owner).count;
    return goesRound && this.#running - places < Math.min(places, others);
  }

  /** Somebody waits who could begin. */
  get #isAwaited(): boolean {
    return [...this.#waiting.owners()].some(([owner]) => this.#hasRoom(owner));
  }

  /** One of the background makes room for each that waits. */
  #preempt(): void {
    const newest = [...this.#backgroundRunning].at(-1);
    if (newest === undefined) return;
    this.#backgroundRunning.delete(newest);
    newest.preempt?.();
  }

  /** @returns what is to be called when it reads again, or its answer is over. */
  stalled(reader: StalledReader): () => void {
    this.#stalled.add(reader);
    this.#cutStalled();
    return () => this.#stalled.remove(reader);
  }

  /** One reader makes room for each chat of another owner that waits. */
  #cutStalled(): void {
    if (!this.options.serving()) return;
    const isAwaited = (owner: string) =>
      this.#waiting.total.count - this.#waiting.of(owner).count > this.#cut.size;
    for (let next = this.#stalled.take(isAwaited); next; next = this.#stalled.take(isAwaited)) {
      this.#cut.add(next.chat);
      next.cut();
    }
  }

  /** A chat that was begun has ended. @param ranMs null when it ended in a way that tells nothing of a chat's time. */
  leave(ranMs: number | null, chat?: Entrant): void {
    if (chat !== undefined) {
      this.#backgroundRunning.delete(chat);
      this.#cut.delete(chat);
    }
    if (chat?.isSeveral) this.#several.remove(chat.owner);
    const before = this.#meanMs ?? ranMs ?? 0;
    if (ranMs !== null) this.#meanMs = before + (ranMs - before) * MEAN_WEIGHT;
    this.#running -= 1;
    this.pump();
    // The place may have gone to the next chat of the same owner.
    this.#cutStalled();
  }

  /** @returns whether it waited here; then it is never begun. */
  drop(chat: Entrant): boolean {
    if (this.#background.remove(chat.owner, chat)) return true;
    const waited = this.#queue.remove(chat.owner, chat);
    if (waited) this.#waiting.remove(chat.owner, chat.work);
    return waited;
  }

  /** Begins as many as there are places for. Also called when the engine is back. */
  pump(): void {
    while (this.options.serving()) {
      const chat = this.#queue.shift((owner) => this.#hasRoom(owner));
      if (chat === undefined) break;
      this.#waiting.remove(chat.owner, chat.work);
      this.#begin(chat);
    }
    while (this.#running < this.options.places && this.options.serving()) {
      const chat = this.#background.shift();
      if (chat === undefined) return;
      this.#backgroundRunning.add(chat);
      this.#begin(chat);
    }
  }

  /** For an engine that is gone: nobody knows when it comes back. */
  refuseAll(error: ApiError): void {
    for (const chat of this.#queue.drain()) {
      this.#waiting.remove(chat.owner, chat.work);
      chat.refuse(error);
    }
    for (const chat of this.#background.drain()) chat.refuse(error);
  }

  #begin(chat: Entrant): void {
    this.#running += 1;
    if (chat.isSeveral) this.#several.add(chat.owner);
    chat.begin();
  }

  #refusal(chat: Entrant): ApiError | null {
    const excess = Math.max(
      this.#excess(chat),
      // While n owners wait, only every n-th chat that begins is this owner's.
      this.#ownExcess(chat) * Math.max(1, this.#waiting.ownerCount),
    );
    return excess === 0 ? null : this.#overloaded(excess);
  }

  /** Owners with more in a full queue lose their newest chats to an owner with less, but never their only one. */
  #makeRoom(chat: Entrant): boolean {
    if (this.#ownExcess(chat) > 0) return false;
    const { count, work } = this.#waiting.of(chat.owner);
    const share = this.#shareOf({ count: count + 1, work: work + chat.work });
    while (this.#excess(chat) > 0) {
      const most = this.#owner(share);
      const newest = most === null ? undefined : this.#queue.takeLast(most);
      if (newest === undefined) return false;
      this.#waiting.remove(newest.owner, newest.work);
      newest.refuse(this.#overloaded(1));
    }
    return true;
  }

  /** The owner with the most, beyond that share and with more than one chat. */
  #owner(share: number): string | null {
    const several = [...this.#waiting.owners()].filter(([, load]) => load.count > 1);
    let most: { readonly owner: string | null; readonly share: number } = { owner: null, share };
    for (const [owner, load] of several) {
      if (this.#shareOf(load) > most.share) most = { owner, share: this.#shareOf(load) };
    }
    return most.owner;
  }

  get #max(): Load {
    const { waitingMax: count, workMax: work = limits.queueWorkMax } = this.options;
    return { count, work };
  }

  #shareOf({ count, work }: Load): number {
    return Math.max(count / this.#max.count, work / this.#max.work);
  }

  #excess(chat: Entrant): number {
    return excessOf(this.#waiting.total, chat, this.#max);
  }

  #ownExcess(chat: Entrant): number {
    const { count, work } = this.#max;
    const share = limits.queueOwnerShareMax;
    const ownMax = { count: Math.ceil(count * share), work: work * share };
    return excessOf(this.#waiting.of(chat.owner), chat, ownMax);
  }

  #overloaded(excess: number): ApiError {
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
