/**
 * Owns the life of one actor: decide, commit, reply, effects, one message at a time.
 * It must never let a reply or an effect out before the state it stands on is where the logic wants it.
 */
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../clock.js';
import { decodeRecord, encodeRecord } from '../codec.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Store, StoreChange, StoreKey } from '../store/store.js';
import { Mailbox } from './mailbox.js';

/**
 * `now`: on disk before the reply leaves. `later`: within `limits.actorSaveMs`, for what a crash may take.
 * `no`: nothing that is stored has changed.
 */
export type Save = 'now' | 'later' | 'no';

export interface Decision<State, Reply, Effect> {
  readonly next: State;
  readonly reply: Reply;
  readonly save: Save;
  readonly effects: readonly Effect[];
  /** Further records that change in the same transaction; with `save: 'now'` only. */
  readonly changes?: readonly StoreChange[];
}

/** What makes a kind of actor. All of it is pure; a transition refuses a message by throwing an ApiError. */
export interface Logic<State, Saved, Message, Reply, Effect> {
  key(address: string): StoreKey;
  /** `saved` is null without a record; `before` is what a failed commit left behind, null at activation. */
  restore(saved: Saved | null, address: string, before: State | null): State;
  /** What the record holds; null removes it. */
  saved(state: State): Saved | null;
  /** Index keys that change in the same transaction as the record; asked for with `save: 'now'` only. */
  indexChanges(before: State, next: State): readonly StoreChange[];
  transition(state: State, message: Message, nowMs: number): Decision<State, Reply, Effect>;
  /** What a restored state still waits for: run at activation, so that a crash after a commit loses no effect. */
  resume(state: State): readonly Effect[];
  /** False while the state holds what no record does. */
  evictable(state: State): boolean;
}

/** Carries out an effect; what it resolves to is a message to the actor, null for none. Failure is a message too. */
export type EffectRunner<Message, Effect> = (
  effect: Effect,
  address: string,
) => Promise<Message | null>;

export interface ActorParts<State, Saved, Message, Reply, Effect> {
  readonly logic: Logic<State, Saved, Message, Reply, Effect>;
  readonly store: Store;
  readonly clock: Clock;
  readonly runEffect: EffectRunner<Message, Effect>;
  /** Takes failures nobody waits for: of a late save, of an effect. */
  readonly report: (fault: unknown) => void;
}

interface Letter<Message, Reply> {
  readonly message: Message;
  readonly resolve: (reply: Reply | Promise<Reply>) => void;
  readonly reject: (cause: unknown) => void;
}

export class Actor<State, Saved, Message, Reply, Effect> {
  readonly #address: string;
  readonly #parts: ActorParts<State, Saved, Message, Reply, Effect>;
  readonly #key: StoreKey;
  readonly #mailbox = new Mailbox<Letter<Message, Reply>>();
  #state: State;
  #version: number | null = null;
  /** Settles when the write that goes on ends; until then everything else waits in the mailbox. */
  #writing: Promise<void> | null = null;
  #unsaved = false;
  #saveDue = false;
  #cancelSave: (() => void) | null = null;
  #cancelResume: (() => void) | null = null;
  #effectsRunning = 0;
  #stopped = false;

  constructor(address: string, parts: ActorParts<State, Saved, Message, Reply, Effect>) {
    this.#address = address;
    this.#parts = parts;
    this.#key = parts.logic.key(address);
    this.#state = this.#load(null);
    this.#start(parts.logic.resume(this.#state));
  }

  /**
   * A plain reply when nobody waits and nothing has to be written first, which keeps a chat's admission at a few
   * microseconds; otherwise a promise. `await` takes both.
   * @throws ApiError of the transition, `overloaded`, `unavailable`.
   */
  ask(message: Message): Reply | Promise<Reply> {
    if (!this.#writing) return this.#take(message);
    return new Promise((resolve, reject) => this.#mailbox.push({ message, resolve, reject }));
  }

  /** Never refused for a full mailbox: for what ends something this actor let in or set off. */
  askOwed(message: Message): Reply | Promise<Reply> {
    if (!this.#writing) return this.#take(message);
    return new Promise((resolve, reject) => this.#mailbox.pushOwed({ message, resolve, reject }));
  }

  get evictable(): boolean {
    const waits = this.#writing || this.#unsaved || this.#cancelResume || this.#effectsRunning > 0;
    return !waits && this.#parts.logic.evictable(this.#state);
  }

  /** Answers what waits, saves what is not saved, then is silent: running effects are the next life's to resume. */
  async stop(): Promise<void> {
    while (this.#writing) await this.#writing;
    this.#stopped = true;
    this.#cancelSave?.();
    this.#cancelResume?.();
    if (this.#unsaved) await this.#commit(this.#state);
  }

  #take(message: Message): Reply | Promise<Reply> {
    if (this.#stopped) throw new ApiError('unavailable', { error: 'it is stopping' });
    const { logic, clock } = this.#parts;
    const decision = logic.transition(this.#state, message, clock.nowMs());
    if (decision.save !== 'now') return this.#speak(decision);
    return this.#exclusive(() => this.#commitAndSpeak(decision));
  }

  #speak(decision: Decision<State, Reply, Effect>): Reply {
    this.#state = decision.next;
    if (decision.save === 'later') this.#saveLater();
    this.#start(decision.effects);
    return decision.reply;
  }

  async #commitAndSpeak(decision: Decision<State, Reply, Effect>): Promise<Reply> {
    try {
      await this.#commit(decision.next, decision.changes);
      await this.#parts.store.flushed();
    } catch (cause) {
      // The write may have happened all the same: only the store knows, and what it holds may wait for an effect.
      this.#state = this.#load(this.#state);
      this.#resumeLater();
      throw cause;
    }
    return this.#speak(decision);
  }

  #exclusive<Result>(task: () => Promise<Result>): Promise<Result> {
    const result = task();
    const end = (): void => {
      this.#writing = null;
      this.#drain();
    };
    this.#writing = result.then(end, end);
    return result;
  }

  #drain(): void {
    if (this.#saveDue) this.#saveNow();
    while (!this.#writing) {
      const letter = this.#mailbox.shift();
      if (!letter) return;
      try {
        letter.resolve(this.#take(letter.message));
      } catch (cause) {
        letter.reject(cause);
      }
    }
  }

  async #commit(next: State, changes: readonly StoreChange[] = []): Promise<void> {
    const { logic, store } = this.#parts;
    const saved = logic.saved(next);
    const expected = this.#version;
    const record: StoreChange =
      saved === null
        ? { type: 'remove', key: this.#key, expected }
        : { type: 'put', key: this.#key, value: encodeRecord(saved), expected };
    const indexes = next === this.#state ? [] : logic.indexChanges(this.#state, next);
    let holds: boolean;
    try {
      holds = await store.commit([record, ...indexes, ...changes]);
    } finally {
      // Also after an error, which does not say that nothing was written.
      this.#version = store.get(this.#key)?.version ?? null;
    }
    if (!holds) throw new ApiError('server', { error: 'the record was written by somebody else' });
    this.#unsaved = false;
  }

  #load(before: State | null): State {
    const record = this.#parts.store.get(this.#key);
    this.#version = record?.version ?? null;
    const saved = record ? decodeRecord<Saved>(record.value) : null;
    return this.#parts.logic.restore(saved, this.#address, before);
  }

  #saveLater(): void {
    this.#unsaved = true;
    this.#cancelSave ??= this.#parts.clock.after(limits.actorSaveMs, () => {
      this.#cancelSave = null;
      this.#saveDue = true;
      if (!this.#writing) this.#drain();
    });
  }

  #saveNow(): void {
    this.#saveDue = false;
    if (!this.#unsaved) return;
    void this.#exclusive(() =>
      this.#commit(this.#state).catch((fault: unknown) => {
        this.#parts.report(fault);
        this.#saveLater();
      }),
    );
  }

  /** Not at once: while the disk takes nothing, an effect and its lost result would chase each other. */
  #resumeLater(): void {
    this.#cancelResume ??= this.#parts.clock.after(limits.storeRetryMs, () => {
      this.#cancelResume = null;
      this.#start(this.#parts.logic.resume(this.#state));
    });
  }

  #start(effects: readonly Effect[]): void {
    for (const effect of effects) void this.#run(effect);
  }

  async #run(effect: Effect): Promise<void> {
    this.#effectsRunning += 1;
    try {
      // The reply goes first, and whatever its asker does with it at once.
      await setImmediate();
      const message = this.#stopped ? null : await this.#parts.runEffect(effect, this.#address);
      if (message !== null && !this.#stopped) await this.askOwed(message);
    } catch (fault) {
      this.#parts.report(fault);
    } finally {
      this.#effectsRunning -= 1;
    }
  }
}
