/**
 * Owns a keeper of prefixes that takes time and fails when it is told to, by a simulated clock.
 * It must never be asked for the same snapshot twice at the same time: that is what it watches for.
 */
import type { Prefiller, PrefillTask } from '../../src/caches/snapshots.js';
import type { Clock } from '../../src/clock.js';
import { decodeBody } from '../../src/parsing/stored-body.js';

/** What survives a crash. */
export interface PrefixDisk {
  readonly held: Set<string>;
}

export class FakePrefiller implements Prefiller {
  readonly busy = new Set<string>();
  readonly faults: string[] = [];
  /** Names of prefills that were begun, in order. */
  readonly begun: string[] = [];
  readonly failed: string[] = [];
  /** Milliseconds the next prefill takes. */
  nextMs: () => number = () => 0;
  fails: () => boolean = () => false;
  /** Goes on although it is told to stop. */
  deaf = false;
  /** Names of those that were stopped, in order. */
  readonly stopped: string[] = [];
  dead = false;

  constructor(
    readonly clock: Clock,
    readonly disk: PrefixDisk = { held: new Set() },
  ) {}

  async prefill(task: PrefillTask, signal: AbortSignal): Promise<{ tokens: number }> {
    const { snapshot } = task;
    this.begun.push(snapshot);
    await this.#alone(snapshot, this.deaf ? null : signal);
    if (this.fails()) {
      this.failed.push(snapshot);
      throw new Error('the engine ran out of something');
    }
    this.disk.held.add(snapshot);
    return { tokens: decodeBody(task.stored).messages.length };
  }

  async forget(snapshot: string): Promise<void> {
    await this.#alone(snapshot, null);
    this.disk.held.delete(snapshot);
  }

  /** Nothing else may go on with this snapshot meanwhile; a dead process never gets further. */
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

  /** Over at the end of that time, or when the signal comes. */
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
