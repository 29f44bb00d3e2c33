/**
 * Owns the order of what is done to snapshots: one thing at a time for each, and how long a prefill may take.
 * It must never forget a snapshot that a cache still wants, nor compute one twice at the same time.
 */
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { ChatMessage } from '../protocol/message.js';
import type { ChatTool } from '../protocol/tool.js';
import type { PrefixHash } from '../rules/prefix.js';
import type { Store } from '../store/store.js';
import { PrefillTurns } from './prefill-turns.js';
import { cacheKeys, EMPTY, idOf } from './records.js';

export interface PrefillTask {
  readonly owner: string;
  readonly family: string;
  /** Equal prefixes of one owner and family have equal names. */
  readonly snapshot: string;
  readonly tokens: number;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
}

/** Whatever keeps prefilled prefixes. */
export interface Prefiller {
  /**
   * Resolves when a chat will reuse the prefix. Quick when the snapshot is intact already.
   * `signal` ends it soon; then it rejects with whatever it likes.
   */
  prefill(task: PrefillTask, signal: AbortSignal): Promise<{ readonly tokens: number }>;
  /** Frees the bytes; nothing happens when there are none. */
  forget(snapshot: string): Promise<void>;
}

type Outcome = 'prefilled' | 'unwanted';

/** Why a prefill is stopped that no cache wants any more. */
const UNWANTED = new Error('no cache wants the prefix any more');

/** What was last asked of one snapshot, and when all that was asked of it is done. */
interface Place {
  tail: Promise<unknown>;
  /** Set while the last thing asked is a prefill: another of the same waits for it instead of running again. */
  prefill: Promise<Outcome> | null;
  /** Of its prefills that run or wait. */
  readonly stops: Set<AbortController>;
}

export interface SnapshotsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly prefiller: Prefiller;
  /** Reads what to prefill for a cache, once its turn has come: what waits holds no messages. */
  readonly task: (cacheId: string) => PrefillTask;
}

export class Snapshots {
  readonly #parts: SnapshotsParts;
  readonly #places = new Map<PrefixHash, Place>();
  readonly #turns = new PrefillTurns();
  /** Prefills that run or wait, by owner. */
  readonly #asked = new Map<string, number>();
  #askedCount = 0;
  #closed = false;

  constructor(parts: SnapshotsParts) {
    this.#parts = parts;
  }

  /** As many prefills wait as may, of all or of this owner. */
  full(owner: string | null): boolean {
    if (this.#askedCount >= limits.prefillsWaitingMax) return true;
    return owner !== null && (this.#asked.get(owner) ?? 0) >= limits.prefillsWaitingOwnerMax;
  }

  /** `unwanted`: by now no cache wants it. */
  prefill(owner: string, hash: PrefixHash): Promise<Outcome> {
    const place = this.#place(hash);
    if (place.prefill) return place.prefill;
    const stop = new AbortController();
    place.stops.add(stop);
    this.#count(owner, 1);
    const act = () => this.#turns.run(owner, stop.signal, () => this.#prefill(hash, stop));
    const prefill = this.#inTurn(hash, () => act().catch(unlessUnwanted)).finally(() => {
      place.stops.delete(stop);
      this.#count(owner, -1);
    });
    // Set by now: who waits in turn keeps the place.
    place.prefill = prefill;
    return prefill;
  }

  /** Frees what no cache wants any more, and stops what is made of it. Until that is done a mark in the store says so. */
  forget(hash: PrefixHash): Promise<void> {
    const place = this.#places.get(hash);
    if (place && this.#wantedBy(hash) === null) stopAll(place);
    const forgotten = this.#inTurn(hash, () => this.#forget(hash));
    this.#place(hash).prefill = null;
    return forgotten;
  }

  /** Somebody worked with the snapshot until now, and may have made it anew after the last who wanted it was gone. */
  async leave(hash: PrefixHash): Promise<void> {
    if (this.#closed || this.#wantedBy(hash) !== null) return;
    const key = [...cacheKeys.forget, hash];
    await this.#parts.store.commit([{ type: 'put', key, value: EMPTY }]);
    await this.forget(hash);
  }

  /** What has not begun does not begin, and what runs stops: records and marks say it to the next run. */
  close(): void {
    this.#closed = true;
    for (const place of this.#places.values()) stopAll(place);
  }

  async #prefill(hash: PrefixHash, stop: AbortController): Promise<Outcome> {
    stop.signal.throwIfAborted();
    // Whose it is makes no difference, and the one who asked may be deleted.
    const cacheId = this.#closed ? null : this.#wantedBy(hash);
    if (cacheId === null) return 'unwanted';
    try {
      await this.#inTime(this.#parts.task(cacheId), stop);
      return 'prefilled';
    } catch (cause) {
      throw stop.signal.aborted ? stop.signal.reason : cause;
    }
  }

  /** Told to stop when it takes too long; who does not listen loses his place all the same. */
  async #inTime(task: PrefillTask, stop: AbortController): Promise<void> {
    const { prefiller, clock } = this.#parts;
    const ms = limits.prefillMsMin + task.tokens * limits.prefillMsPerToken;
    let cancel = clock.after(ms, () => stop.abort(tooSlow(ms)));
    const deaf = new Promise<never>((_, reject) => {
      const stopped = () => {
        cancel();
        cancel = clock.after(limits.prefillStopMsMax, () => reject(stop.signal.reason));
      };
      stop.signal.addEventListener('abort', stopped, { once: true });
    });
    try {
      await Promise.race([prefiller.prefill(task, stop.signal), deaf]);
    } finally {
      cancel();
    }
  }

  async #forget(hash: PrefixHash): Promise<void> {
    if (this.#closed) return;
    const { store, prefiller } = this.#parts;
    const key = [...cacheKeys.forget, hash];
    const mark = store.get(key);
    if (mark === null) return;
    if (this.#wantedBy(hash) === null) await prefiller.forget(hash);
    if (this.#closed) return;
    // A later mark has a later version, and its own turn.
    await store.commit([{ type: 'remove', key, expected: mark.version }]);
  }

  #wantedBy(hash: PrefixHash): string | null {
    const [entry] = this.#parts.store.page({ prefix: cacheKeys.snapshot(hash), limit: 1 });
    return entry ? idOf(entry) : null;
  }

  #inTurn<Result>(hash: PrefixHash, task: () => Promise<Result>): Promise<Result> {
    const place = this.#place(hash);
    const result = place.tail.then(task, task);
    const tail = result.catch(() => {});
    place.tail = tail;
    tail.then(() => {
      if (place.tail === tail) this.#places.delete(hash);
    });
    return result;
  }

  #place(hash: PrefixHash): Place {
    const known = this.#places.get(hash);
    if (known) return known;
    const place = { tail: Promise.resolve(), prefill: null, stops: new Set<AbortController>() };
    this.#places.set(hash, place);
    return place;
  }

  #count(owner: string, change: 1 | -1): void {
    this.#askedCount += change;
    const count = (this.#asked.get(owner) ?? 0) + change;
    if (count > 0) this.#asked.set(owner, count);
    else this.#asked.delete(owner);
  }
}

function stopAll({ stops }: Place): void {
  for (const stop of stops) stop.abort(UNWANTED);
}

function unlessUnwanted(cause: unknown): Outcome {
  if (cause === UNWANTED) return 'unwanted';
  throw cause;
}

function tooSlow(ms: number): ApiError {
  return new ApiError('server', {
    error: `the prefix was not evaluated within ${Math.ceil(ms / 1000)} seconds`,
  });
}
