/**
 * Owns the watch over one child process, in whatever state it is: who says nothing for too long is ended.
 * It must never take time for a sign: looks are counted, since a machine may sleep and a clock may jump.
 */
import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../clock.js';
import { killChild, onBeat } from './child.js';

export interface LifeWatchOptions {
  readonly child: ChildProcess;
  readonly clock: Clock;
  readonly lookMs: number;
  /** Looks in a row that find no sign. */
  readonly silentMax: number;
  /** Called before it is ended. */
  readonly onSilent: (ms: number) => void;
}

export class LifeWatch {
  #signs = 0;
  #silent = 0;

  constructor(readonly options: LifeWatchOptions) {
    onBeat(options.child, () => {
      this.#signs += 1;
    });
    this.#wait();
  }

  /** Whether the last look found a sign of life, or there was none yet. */
  get isLively(): boolean {
    return this.#silent === 0;
  }

  #wait(): void {
    const { clock, lookMs } = this.options;
    clock.after(lookMs, () => this.#look());
  }

  #look(): void {
    const { child, lookMs, silentMax, onSilent } = this.options;
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    this.#silent = this.#signs === 0 ? this.#silent + 1 : 0;
    this.#signs = 0;
    if (this.#silent < silentMax) {
      this.#wait();
      return;
    }
    onSilent(lookMs * silentMax);
    killChild(child);
  }
}
