/**
 * Owns which actors of one kind are in memory: the first message activates one, and idle ones are removed.
 * It must never have two actors for one address, nor more than the bound.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import { Actor, type ActorParts, type Commit } from './actor.js';

interface Activation<State, Saved, Message, Reply, Effect> {
  readonly actor: Actor<State, Saved, Message, Reply, Effect>;
  /** Whether a message came since the last sweep. */
  used: boolean;
}

export class Registry<State, Saved, Message, Reply, Effect> {
  readonly #parts: ActorParts<State, Saved, Message, Reply, Effect>;
  /** In order of activation. Activation reads the store synchronously, so it cannot happen twice for one address. */
  readonly #activations = new Map<string, Activation<State, Saved, Message, Reply, Effect>>();
  #cancelSweep: (() => void) | null = null;
  #closed = false;

  constructor(parts: ActorParts<State, Saved, Message, Reply, Effect>) {
    this.#parts = parts;
  }

  /** See `Actor.ask`. */
  ask(address: string, message: Message, commit?: Commit): Reply | Promise<Reply> {
    return this.#actor(address).ask(message, commit);
  }

  /** See `Actor.askUnbounded`. */
  askUnbounded(address: string, message: Message): Reply | Promise<Reply> {
    return this.#actor(address).askUnbounded(message);
  }

  get activeCount(): number {
    return this.#activations.size;
  }

  /** Saves everything. Every later message is refused. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelSweep?.();
    const stops = [...this.#activations.values()].map(({ actor }) => actor.stop());
    for (const result of await Promise.allSettled(stops)) {
      if (result.status === 'rejected') this.#parts.report(result.reason);
    }
    await this.#parts.store.flushed();
    this.#activations.clear();
  }

  #actor(address: string): Actor<State, Saved, Message, Reply, Effect> {
    const activation = this.#activations.get(address);
    if (!activation) return this.#activate(address);
    activation.used = true;
    return activation.actor;
  }

  #activate(address: string): Actor<State, Saved, Message, Reply, Effect> {
    if (this.#closed) throw new ApiError('unavailable', { error: 'it is stopping' });
    if (this.#activations.size >= limits.actorsActiveMax) this.#makeRoom();
    const actor = new Actor(address, this.#parts);
    this.#activations.set(address, { actor, used: true });
    this.#cancelSweep ??= this.#parts.clock.after(limits.actorIdleMs, () => this.#sweep());
    return actor;
  }

  /** @throws ApiError `overloaded` when every actor is busy. */
  #makeRoom(): void {
    for (const [address, { actor }] of this.#activations) {
      if (!actor.evictable) continue;
      this.#activations.delete(address);
      return;
    }
    throw new ApiError('overloaded');
  }

  /** Removes the actors that had no message for one whole interval. */
  #sweep(): void {
    for (const [address, activation] of this.#activations) {
      if (!activation.used && activation.actor.evictable) this.#activations.delete(address);
      activation.used = false;
    }
    this.#cancelSweep =
      this.#activations.size === 0
        ? null
        : this.#parts.clock.after(limits.actorIdleMs, () => this.#sweep());
  }
}
