/**
 * Owns which actors of one kind are in memory: it makes them on their first message and lets idle ones go.
 * It must never have two actors for one address, nor more than the bound.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import { Actor, type ActorParts } from './actor.js';

interface Place<State, Saved, Message, Reply, Effect> {
  readonly actor: Actor<State, Saved, Message, Reply, Effect>;
  /** Since the last sweep. */
  used: boolean;
}

export class Registry<State, Saved, Message, Reply, Effect> {
  readonly #parts: ActorParts<State, Saved, Message, Reply, Effect>;
  /** In the order of activation. Activation reads the store without waiting, so it cannot happen twice. */
  readonly #places = new Map<string, Place<State, Saved, Message, Reply, Effect>>();
  #cancelSweep: (() => void) | null = null;
  #closed = false;

  constructor(parts: ActorParts<State, Saved, Message, Reply, Effect>) {
    this.#parts = parts;
  }

  /** See `Actor.ask`. */
  ask(address: string, message: Message): Reply | Promise<Reply> {
    return this.#actor(address).ask(message);
  }

  /** See `Actor.askOwed`. */
  askOwed(address: string, message: Message): Reply | Promise<Reply> {
    return this.#actor(address).askOwed(message);
  }

  get activeCount(): number {
    return this.#places.size;
  }

  /** Saves everything. From here on every message is refused. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelSweep?.();
    const stops = [...this.#places.values()].map(({ actor }) => actor.stop());
    for (const result of await Promise.allSettled(stops)) {
      if (result.status === 'rejected') this.#parts.report(result.reason);
    }
    await this.#parts.store.flushed();
    this.#places.clear();
  }

  #actor(address: string): Actor<State, Saved, Message, Reply, Effect> {
    const place = this.#places.get(address);
    if (!place) return this.#activate(address);
    place.used = true;
    return place.actor;
  }

  #activate(address: string): Actor<State, Saved, Message, Reply, Effect> {
    if (this.#closed) throw new ApiError('unavailable', { error: 'it is stopping' });
    if (this.#places.size >= limits.actorsActiveMax) this.#makeRoom();
    const actor = new Actor(address, this.#parts);
    this.#places.set(address, { actor, used: true });
    this.#cancelSweep ??= this.#parts.clock.after(limits.actorIdleMs, () => this.#sweep());
    return actor;
  }

  /** @throws ApiError `overloaded` when every actor has something to do. */
  #makeRoom(): void {
    for (const [address, { actor }] of this.#places) {
      if (!actor.evictable) continue;
      this.#places.delete(address);
      return;
    }
    throw new ApiError('overloaded');
  }

  /** Lets go who had no message for one whole interval. */
  #sweep(): void {
    for (const [address, place] of this.#places) {
      if (!place.used && place.actor.evictable) this.#places.delete(address);
      place.used = false;
    }
    this.#cancelSweep =
      this.#places.size === 0
        ? null
        : this.#parts.clock.after(limits.actorIdleMs, () => this.#sweep());
  }
}
