/**
 * Owns a service that is started on a data folder, killed without warning, and started on it again.
 * It must never leave a process behind, nor signal a process that it did not start.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { serviceEnv } from './service.js';
import { until } from './until.js';

const START_MS_MAX = 60_000;
const END_MS_MAX = 5_000;
const LISTENING = /^preface listening on (http:\S+)$/m;

/** The target of the signal: only the service, so that its engine must notice, or all its processes. */
export type Victim = 'service' | 'all';

export class CrashService {
  readonly #child: ChildProcess;
  #output = '';
  readonly #url: Promise<string>;

  constructor(dataDir: string, env: Readonly<Record<string, string>>) {
    const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
    this.#child = spawn(process.execPath, [cli, 'serve'], {
      env: { PATH: process.env.PATH, ...serviceEnv(dataDir), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#url = this.#listening();
    // A service that is killed during its start never prints its address.
    this.#url.catch(() => {});
  }

  /** Ends in `/v1`. @throws Error with the output, when the service ends or prints no address in time. */
  url(): Promise<string> {
    return this.#url;
  }

  /** Nothing of it goes on, once this resolves, until `goOn`. */
  async stop(): Promise<void> {
    const { pid = 0 } = this.#child;
    signal(pid, 'SIGSTOP');
    // It starts no more of them.
    await until(() => isStopped(pid), END_MS_MAX, 'the service stands still');
    const children = childrenOf(pid);
    for (const child of children) signal(child, 'SIGSTOP');
    await until(() => children.every(isStopped), END_MS_MAX, 'its processes stand still');
  }

  goOn(): void {
    const { pid = 0 } = this.#child;
    for (const each of [pid, ...childrenOf(pid)]) signal(each, 'SIGCONT');
  }

  /** @returns milliseconds that the engine outlived the service. @throws Error when the engine does not end. */
  async kill(victim: Victim): Promise<number> {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) {
      throw new Error(`it had ended by itself: ${this.#output}`);
    }
    const children = childrenOf(pid);
    const closed = once(this.#child, 'exit');
    // Engines have groups of their own.
    for (const each of victim === 'all' ? [pid, ...children] : [pid]) signal(each, 'SIGKILL');
    await closed;
    const beganMs = performance.now();
    try {
      await until(() => !children.some(isAlive), END_MS_MAX, `the end of the engine (${children})`);
    } catch (cause) {
      for (const child of children) signal(child, 'SIGKILL');
      throw new Error(`the engine outlived its service: ${children}`, { cause });
    }
    return performance.now() - beganMs;
  }

  #listening(): Promise<string> {
    return new Promise((resolve, reject) => {
      const fail = (how: string) => reject(new Error(`${how}: ${this.#output}`));
      const timer = setTimeout(() => fail('the service said nothing in time'), START_MS_MAX);
      this.#child.once('close', () => {
        clearTimeout(timer);
        fail('the service ended');
      });
      const take = (chunk: Buffer): void => {
        this.#output += chunk.toString();
        const url = LISTENING.exec(this.#output)?.[1];
        if (url === undefined) return;
        clearTimeout(timer);
        resolve(url);
      };
      this.#child.stdout?.on('data', take);
      this.#child.stderr?.on('data', take);
    });
  }
}

/** One that has ended meanwhile needs none. */
function signal(pid: number, name: NodeJS.Signals): void {
  if (!isAlive(pid)) return;
  try {
    process.kill(pid, name);
  } catch (cause) {
    if (!hasEnded(cause)) throw cause;
  }
}

/** Of what was asked of a process: its end may come between any two looks at it. */
function hasEnded(cause: unknown): boolean {
  const { code } = cause as NodeJS.ErrnoException;
  return code === 'ESRCH' || code === 'ENOENT';
}

function childrenOf(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`);
  return tasks.flatMap((task) => {
    const text = readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim();
    return text === '' ? [] : text.split(' ').map(Number);
  });
}

function isStopped(pid: number): boolean {
  return /\) [TZX] /.test(statOf(pid) ?? ') X ');
}

/** A zombie holds no resources: its new parent just has not reaped it yet. */
function isAlive(pid: number): boolean {
  return !/\) [ZX] /.test(statOf(pid) ?? ') X ');
}

/** null: it has ended. */
function statOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch (cause) {
    if (hasEnded(cause)) return null;
    throw cause;
  }
}
