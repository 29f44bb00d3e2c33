/**
 * Owns the process in which an engine runs: its start, the signs of life it gives, its end.
 * It must never give it a variable of the environment that is not on the list.
 */
import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../clock.js';
import { engineEnvironment } from '../environment.js';
import { childPipe, killChild, startChild } from './child.js';
import type { EngineRunner, OnRunnerEnd } from './engine-runner.js';
import { LifeWatch } from './life-watch.js';
import type { FromEngine, HostLine, HostOpen, ToEngine } from './messages.js';

export interface EngineProcessOptions {
  readonly line: HostLine;
  /** Beside what an engine gets of this process's own. */
  readonly env: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly lookMs: number;
  /** Looks in a row without a sign of life, which end it. */
  readonly silentMax: number;
  readonly log: (line: string) => void;
  readonly onEnd: OnRunnerEnd;
}

export class EngineProcess implements EngineRunner {
  readonly kind = 'process';
  readonly ended: Promise<unknown>;
  readonly #child: ChildProcess;
  readonly #watch: LifeWatch;

  /** @throws Error where there are no file descriptors or no memory for one. */
  constructor({ line, env, clock, lookMs, silentMax, log, onEnd }: EngineProcessOptions) {
    const child = startChild({
      entry: new URL('../pool/host-child.js', import.meta.url),
      start: line,
      input: 'start',
      beats: true,
      env: { ...engineEnvironment(process.env), ...env },
      prints: true,
      onEnd: (_, how) => onEnd(this, how),
    });
    const onSilent = (ms: number) =>
      log(`inference process ${child.pid}: no sign of life for ${ms / 1000} s, it is ended`);
    this.#child = child;
    this.#watch = new LifeWatch({ child, clock, lookMs, silentMax, onSilent });
    this.ended = new Promise((resolve) => {
      child.once('exit', resolve);
      // Of one that never ran.
      child.once('error', resolve);
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isLively(): boolean {
    return this.#watch.isLively;
  }

  connect() {
    return childPipe<ToEngine, FromEngine>(this.#child);
  }

  open(how: HostOpen): void {
    this.#child.stdin?.write(`${JSON.stringify(how)}\n`);
  }

  kill(): void {
    killChild(this.#child);
  }
}
