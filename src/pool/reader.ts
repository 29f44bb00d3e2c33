/**
 * Owns one process that reads documents, one at a time: its start, its bounds in time and memory, and its end.
 * It must never outlive a bound that was reached, nor be used again after a fault.
 */
import type { ChildProcess } from 'node:child_process';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../clock.js';
import { fromErrorValue } from '../errors.js';
import { childPipe, startChild } from './child.js';
import type {
  ExtractProgress,
  ExtractResult,
  ExtractTask,
  FromReader,
  ReaderResult,
  ReaderStart,
  ToReader,
} from './messages.js';
import type { Transport } from './transport.js';

export interface ReaderOptions {
  readonly start: ReaderStart;
  readonly clock: Clock;
  readonly startMsMax: number;
  /** Wall clock of one document. */
  readonly readMsMax: number;
  /** Of one page: what takes longer is a loop. */
  readonly pageMsMax: number;
  /** Resident bytes with which the process may go on to the next document. */
  readonly memoryKeptBytesMax: number;
  readonly log: (line: string) => void;
}

interface Reading {
  readonly onProgress: (progress: ExtractProgress) => void;
  readonly resolve: (result: ExtractResult) => void;
  readonly reject: (cause: Error) => void;
}

const MIB = 2 ** 20;

export class Reader {
  readonly #child: ChildProcess;
  readonly #transport: Transport<ToReader, FromReader> | null;
  readonly #ready: Promise<void>;
  #onReady: (failure: Error | null) => void = () => {};
  #reading: Reading | null = null;
  #started = false;
  /** Why it is being ended; null while nobody ends it. */
  #verdict: string | null = null;
  #ended: string | null = null;
  #onEnded: () => void = () => {};
  #cancelPage = () => {};
  readonly ended: Promise<void>;

  /** @throws Error where the system has no process to give. */
  constructor(readonly options: ReaderOptions) {
    this.#ready = new Promise((resolve, reject) => {
      this.#onReady = (failure) => (failure === null ? resolve() : reject(failure));
    });
    // The one who reads awaits it; until then a failure must not end the server.
    this.#ready.catch(() => {});
    this.ended = new Promise((resolve) => {
      this.#onEnded = resolve;
    });
    const { start } = options;
    this.#child = startChild({
      entry: new URL('./reader-child.js', import.meta.url),
      start,
      flags: [
        `--max-old-space-size=${Math.ceil(start.memoryBytesMax / MIB)}`,
        // Every thread inherits it, which `--import` does not promise: it is CommonJS for this.
        `--require=${fileURLToPath(new URL('./reader-guard.cjs', import.meta.url))}`,
      ],
      // Nothing of the server's: no keys, no settings, no folder that a relative path could mean.
      env: {},
      cwd: '/',
      prints: false,
      onEnd: (_child, how) => this.#onEnd(how),
    });
    goLast(this.#child.pid);
    this.#transport = childPipe(this.#child, () => this.end('the reader spoke nonsense'));
    this.#transport?.receive((messages) => {
      for (const message of messages) this.#receive(message);
    });
    if (this.#transport === null) this.end('no pipe');
  }

  /** Whether another document may be given to it. */
  get usable(): boolean {
    return this.#verdict === null && this.#ended === null;
  }

  /** Why it is not usable any more. */
  get reason(): string | null {
    return this.#verdict ?? this.#ended;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** @throws Error that is not the document's fault. When it throws or refuses, the process may have ended. */
  async read(
    task: ExtractTask,
    onProgress: (progress: ExtractProgress) => void,
  ): Promise<ExtractResult> {
    await this.#bounded(this.options.startMsMax, 'no start', this.#ready);
    const result = new Promise<ExtractResult>((resolve, reject) => {
      this.#reading = { onProgress, resolve, reject };
      this.#transport?.send({ type: 'read', task });
      this.#awaitPage();
      if (this.#ended !== null) this.#onEnd(this.#ended);
    });
    const { readMsMax } = this.options;
    const verdict = `reading took longer than ${seconds(readMsMax)}`;
    return await this.#bounded(readMsMax, verdict, result).finally(() => this.#cancelPage());
  }

  /** Kills it; what it reads is refused for this reason. */
  end(verdict: string): void {
    this.#verdict ??= verdict;
    this.#child.kill('SIGKILL');
    // A child that never ran has no end to wait for.
    if (this.#child.pid === undefined) this.#onEnd(verdict);
  }

  async #bounded<Value>(msMax: number, verdict: string, value: Promise<Value>): Promise<Value> {
    const cancel = this.options.clock.after(msMax, () => this.end(verdict));
    try {
      return await value;
    } finally {
      cancel();
    }
  }

  #awaitPage(): void {
    const { clock, pageMsMax } = this.options;
    this.#cancelPage();
    const verdict = `a page of it took longer than ${seconds(pageMsMax)}`;
    this.#cancelPage = clock.after(pageMsMax, () => this.end(verdict));
  }

  #receive(message: FromReader): void {
    if (message.type === 'ready') {
      this.#started = true;
      this.#onReady(null);
    } else if (message.type === 'progress') {
      this.#awaitPage();
      this.#reading?.onProgress(message.progress);
    } else if (message.type === 'memory') {
      this.end(`it needed more than ${megabytes(this.options.start.memoryBytesMax)} of memory`);
    } else {
      this.#finish(message.result, message.memoryBytes);
    }
  }

  #finish(result: ReaderResult, memoryBytes: number): void {
    if (result.type === 'failed') {
      const failure = fromErrorValue(result.error);
      if (this.#started) this.#reading?.reject(failure);
      else this.#onReady(failure);
      this.end(failure.message);
    } else if (result.type === 'read' && this.#verdict === null) {
      const { fault } = result;
      if (fault !== null) this.options.log(`reading a document: ${fault}`);
      // After a fault nobody knows what state the process is in, and memory it kept is not the next one's to miss.
      if (fault !== null || memoryBytes > this.options.memoryKeptBytesMax) this.end('worn out');
      this.#reading?.resolve(result.result);
      this.#reading = null;
    }
  }

  #onEnd(how: string): void {
    this.#ended ??= how;
    if (!this.#started) this.#onReady(new Error(`the reader could not be started: ${how}`));
    const reason = this.#verdict ?? `the reader ended: ${how}`;
    this.#reading?.resolve({ type: 'refused', reason, fileType: null });
    this.#reading = null;
    this.#onEnded();
  }
}

/**
 * Who chats waits for a token, who uploads for a document: with few cores the first goes before the second, which still
 * gets a tenth of one. At 19 a scanned page would not be read within its time beside a busy service.
 */
const NICE = 10;

/** Threads inherit it from the one that starts them, and this comes before there are others. */
function goLast(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, NICE);
  } catch {
    // It has ended already, or the system does not let us: it reads all the same.
  }
}

function seconds(ms: number): string {
  return `${ms / 1000} s`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MIB)} MB`;
}
