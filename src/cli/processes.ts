/**
 * Owns the processes of one service on this machine: it starts them, starts one again that ended, and ends all.
 * It must never serve a request itself, nor load what serves.
 *
 * Each process is a node as it would be on a machine of its own: with a name, a folder and a port that no other one has. By that
 * port the others pass requests on. All listen on the port of the service too, where the kernel gives each connection to one.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { partingOf } from '../admin/open-shards.js';
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { Config } from '../settings/config.js';
import { shardsText } from '../store/postgres-part.js';
import type { TakeReport } from '../telemetry/report.js';
import { UsageError } from './settings.js';

/** What a process says to the one that started it. */
export type ProcessMessage =
  /** It takes requests at the port of the service. */
  | { readonly type: 'opened'; readonly url: string }
  /** It ends next. */
  | { readonly type: 'failed'; readonly reason: string };

export interface ProcessesParts {
  readonly config: Config;
  /** The command that started this process: its file, and its words behind that. */
  readonly command: readonly [file: string, ...words: string[]];
  /** With the keys in it. */
  readonly env: NodeJS.ProcessEnv;
  /** Its timers keep this process alive. */
  readonly clock: Clock;
  readonly log: (line: string) => void;
  readonly report: TakeReport;
}

const { processRestartDelayMs, processRestartDelayMsMax } = limits;
const PORT_MAX = 65_535;

/** @throws UsageError where several processes cannot serve; it says why, and what to do. */
export function assertSeveral(
  { processes, store, port }: Pick<Config, 'processes' | 'store' | 'port'>,
  platform: NodeJS.Platform = process.platform,
): void {
  const wrong = (why: string) =>
    new UsageError(`setting PREFACE_PROCESSES: got ${processes}, and ${why}`);
  if (store === null) throw wrong(IN_FOLDER);
  if (platform !== 'linux')
    throw wrong(`this system is ${platform}: only Linux spreads the connections of a port; use 1`);
  if (port === 0)
    throw wrong('PREFACE_PORT is 0: name the port that they share; each has one of the next ones');
  if (port + processes > PORT_MAX)
    throw wrong(`PREFACE_PORT is ${port}: each has one of the next ports, up to ${PORT_MAX}`);
}

const IN_FOLDER =
  'the records are in the data folder, which one process has to itself: bring them to PostgreSQL with ' +
  '`preface migrate postgres` and set PREFACE_STORE, or use 1';

export class Processes {
  readonly #parts: ProcessesParts;
  readonly #runs = new Map<number, Run>();
  readonly #opened = new Set<number>();
  #isOpen = false;
  #closing: Promise<void> | null = null;
  #tellOpen: (url: string) => void = () => {};
  #fail: (cause: Error) => void = () => {};
  readonly #open = new Promise<string>((resolve, reject) => {
    this.#tellOpen = resolve;
    this.#fail = reject;
  });

  constructor(parts: ProcessesParts) {
    this.#parts = parts;
    // It may be told to end before anybody waits for that.
    this.#open.catch(() => {});
  }

  /**
   * Resolves with the address of the service when all take requests there.
   * @throws Error with the last word of the first process that ended before; then none runs.
   */
  async begin(): Promise<string> {
    const { config, log } = this.#parts;
    const { processes, port, store } = config;
    const { shards } = await partingOf(store ?? '');
    log(`processes: ${processes}, with ports of their own: ${port + 1} to ${port + processes}`);
    if (shards < processes) log(standByText(processes, shards));
    // Where this process is told to end at once, they end with it.
    process.once('exit', () => this.#end('SIGKILL'));
    for (let number = 1; number <= processes; number += 1)
      this.#start(number, processRestartDelayMs);
    try {
      return await this.#open;
    } catch (cause) {
      await this.close().catch(() => {});
      throw cause;
    }
  }

  /** @throws Error where one did not end as it should. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const runs = [...this.#runs.values()];
    this.#end('SIGTERM');
    const ends = await Promise.all(runs.map(({ ended }) => ended));
    this.#fail(new Error('the service ends'));
    const wrong = ends.find(({ isClean }) => !isClean);
    if (wrong !== undefined) throw new Error(wrong.how);
  }

  #end(signal: NodeJS.Signals): void {
    for (const { child } of this.#runs.values()) child.kill(signal);
  }

  #start(number: number, delayMs: number): void {
    if (this.#closing !== null) return;
    const { command, env, config, clock } = this.#parts;
    const [file, ...words] = command;
    const startedMs = clock.monotonicMs();
    const child = fork(file, [...words, ...flagsOf(config, number)], { env });
    const run = new Run(number, child, (url) => this.#openedAt(number, url));
    this.#runs.set(number, run);
    void run.ended.then(({ how }) => {
      this.#runs.delete(number);
      const isSteady = clock.monotonicMs() - startedMs > processRestartDelayMsMax;
      this.#ended(number, how, isSteady ? processRestartDelayMs : delayMs);
    });
  }

  #openedAt(number: number, url: string): void {
    this.#opened.add(number);
    if (this.#opened.size < this.#parts.config.processes) return;
    this.#isOpen = true;
    this.#tellOpen(url);
  }

  #ended(number: number, how: string, delayMs: number): void {
    const { clock, report } = this.#parts;
    if (this.#closing !== null) return;
    // What one of them cannot open at the start, it could not open a moment later.
    if (!this.#isOpen) {
      this.#fail(new Error(how));
      return;
    }
    const place = `process ${number}`;
    report({ type: 'fault', place, fault: `${how}; it is started again in ${delayMs} ms` });
    const nextMs = Math.min(2 * delayMs, processRestartDelayMsMax);
    clock.after(delayMs, () => this.#start(number, nextMs));
  }
}

function standByText(processes: number, shards: number): string {
  return `processes: the records are in ${shardsText(shards)}, so ${processes - shards} of ${processes} stand by: \`preface migrate shards ${4 * processes}\` lets all serve`;
}

/** What a process has for itself. */
function flagsOf({ port, dataDir, address }: Config, number: number): string[] {
  // That of the first is the folder of a service with one process: it goes on with what is there.
  const folder = number === 1 ? dataDir : join(dataDir, 'processes', String(number));
  return [
    `--process=${number}`,
    `--shared-port=${port}`,
    `--port=${port + number}`,
    `--data-dir=${folder}`,
    ...(address === null ? [] : [`--address=${addressOf(address, number)}`]),
  ];
}

function addressOf(address: string, number: number): string {
  const [, host = '', port = ''] = /^(.+):(\d+)$/.exec(address) ?? [];
  return `${host}:${Number(port) + number}`;
}

interface End {
  readonly how: string;
  /** It ended as it was told to. */
  readonly isClean: boolean;
}

/** One process, from its start to its end. */
class Run {
  /** What it said of its failure. */
  #reason: string | null = null;
  readonly ended: Promise<End>;

  constructor(
    readonly number: number,
    readonly child: ChildProcess,
    opened: (url: string) => void,
  ) {
    child.on('message', (message: ProcessMessage) => {
      if (message.type === 'opened') opened(message.url);
      else this.#reason = message.reason;
    });
    this.ended = this.#untilEnded();
  }

  async #untilEnded(): Promise<End> {
    try {
      // Its last message may come after its end, but not after that of the channel.
      const closed = once(this.child, 'disconnect');
      const [code, signal] = (await once(this.child, 'exit')) as [number | null, string | null];
      await closed;
      const end = signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
      return { how: this.#reason ?? `process ${this.number} ${end}`, isClean: code === 0 };
    } catch (fault) {
      return {
        how: `process ${this.number} did not start: ${(fault as Error).message}`,
        isClean: false,
      };
    }
  }
}
