/**
 * Owns a fake that prefills snapshots by a simulated clock, slowly or with errors as a test tells it.
 * It must never be asked for the same snapshot twice at the same time: it throws then.
 */
import type { Prefiller, PrefillTask } from '../../src/caches/snapshots.js';
import type { Clock } from '../../src/clock.js';
import { decodeBody } from '../../src/parsing/stored-body.js';
import type { SnapshotFacts } from '../../src/protocol/caching.js';

/** The state that survives a crash. */
export interface PrefixDisk {
  readonly held: Set<string>;
  /** Those of them that are to stay in memory. */
  readonly pinned: Set<string>;
}

export class FakePrefiller implements Prefiller {
  readonly busy = new Set<string>();
  readonly faults: string[] = [];
  /** Names of the prefills that began, in order. */
  readonly begun: string[] = [];
  readonly failed: string[] = [];
  /** Milliseconds that the next prefill takes. */
  nextMs: () => number = () => 0;
  fails: () => boolean = () => false;
  /** Ignores the abort signal. */
  deaf = false;
  /** Names of the prefills that were stopped, in order. */
  readonly stopped: string[] = [];
  dead = false;

  constructor(
    readonly clock: Clock,
    readonly disk: PrefixDisk = { held: new Set(), pinned: new Set() },
  ) {}

  async prefill(task: PrefillTask, signal: AbortSignal): Promise<SnapshotFacts> {
    const { snapshot, base, pin } = task;
    this.begun.push(snapshot);
    await this.#alone(snapshot, this.deaf ? null : signal);
    if (this.fails()) {
      this.failed.push(snapshot);
      throw new Error('the engine ran out of something');
    }
    const had = this.disk.held.has(snapshot);
    this.disk.held.add(snapshot);
    if (pin) this.disk.pinned.add(snapshot);
    else this.disk.pinned.delete(snapshot);
    const { length } = decodeBody(task.stored).messages;
    const isFrom = base !== undefined && this.disk.held.has(base.snapshot);
    const from = isFrom ? decodeBody(base.stored).messages.length : 0;
    const evaluatedTokens = had ? 0 : length - from;
    return { bytes: task.stored.length, evaluatedTokens, ...(pin ? { pinned: true } : {}) };
  }

  async forget(snapshot: string): Promise<void> {
    await this.#alone(snapshot, null);
    this.disk.held.delete(snapshot);
    this.disk.pinned.delete(snapshot);
  }

  /** No other work on this snapshot may run meanwhile; after a crash it never continues. */
  async #alone(snapshot: string, signal: AbortSignal | null): Promise<void> {
    if (this.busy.has(snapshot)) this.faults.push(`two things at once with ${snapshot}`);
    this.busy.add(snapshot);
    const ms = this.nextMs();
    if (ms > 0) await this.#pass(ms, signal);
    if (this.dead) await new Promise(() => {});
    this.busy.delete(snapshot);
    if (!signal?.aborted) return;
    this.stopped.push(snapshot);
    throw signal.reason;
  }

  /** Ends after that time, or at the signal. */
  #pass(ms: number, signal: AbortSignal | null): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.clock.after(ms, resolve);
      const stop = () => {
        cancel();
        resolve();
      };
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }
}
