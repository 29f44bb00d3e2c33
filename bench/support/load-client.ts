/**
 * Owns the load: keep-alive connections that each send a request when the previous one is answered, and open streams.
 * It must never pipeline, nor count an answer that is not a complete 200.
 */
import { connect, type Socket } from 'node:net';
import type { Loaded, LoadTask, StreamCount, ToClient } from './load.js';

const READ_BYTES = 64 * 1024;
/** One buffer for all connections: a new buffer for each read would cost more than the read. */
const shared = Buffer.allocUnsafe(READ_BYTES);

process.on('message', (message: ToClient) => {
  if (message.type === 'load') void load(message.task).then(tell);
  else if (message.type === 'open') void openStreams(message.task).then(tell);
  else if (message.type === 'count') tell(streamCount());
  else closeStreams();
});

function tell(answer: Loaded | StreamCount): void {
  process.send?.(answer);
}

// ---------------------------------------------------------------- requests

/** Every request carries a new number, so that no text is known to the service. */
let serial = 0;

async function load(task: LoadTask): Promise<Loaded> {
  const left = task.requests ?? Number.POSITIVE_INFINITY;
  const run = { left, requests: 0, errors: 0, waitedMs: 0, body: '' };
  const waits: number[] = [];
  const startedMs = performance.now();
  const endMs = startedMs + task.ms;
  let sent = 0;
  const takeTurn = (): boolean => {
    // One at least: on a busy machine a short time is over before anybody is connected.
    if (run.left <= 0 || (sent > 0 && performance.now() >= endMs)) return false;
    run.left -= 1;
    sent += 1;
    return true;
  };
  const texts = [task.request, ...(task.also ?? [])];
  const connections = Array.from({ length: task.connections }, (_, at) => {
    const text = texts[at % texts.length] ?? '';
    const connection = new Connection(task, text, takeTurn, (ok, body, waitedMs) => {
      run.requests += 1;
      run.waitedMs += waitedMs;
      waits.push(waitedMs);
      if (!ok) run.errors += 1;
      if (run.body === '') run.body = body();
    });
    return connection.whole;
  });
  const broken = (await Promise.all(connections)).filter((ok) => !ok).length;
  const { requests, errors, waitedMs, body } = run;
  return {
    type: 'loaded',
    requests,
    errors: errors + broken,
    ms: performance.now() - startedMs,
    waitedMs,
    p50Ms: quantile(waits, 0.5),
    p99Ms: quantile(waits, 0.99),
    body,
  };
}

function quantile(waits: number[], part: number): number {
  waits.sort((a, b) => a - b);
  return waits[Math.min(waits.length - 1, Math.floor(waits.length * part))] ?? Number.NaN;
}

/** One connection, one request at a time. */
class Connection {
  readonly #request: Buffer;
  readonly #socket: Socket;
  /** Length of the last complete answer: most answers have it, and then need no search for their end. */
  #usualBytes = 0;
  #partial: Buffer | null = null;
  #sentMs = 0;
  #settle: (ok: boolean) => void = () => {};
  /** Gets false when the connection broke before the end of an answer. */
  readonly whole: Promise<boolean>;

  constructor(
    readonly task: LoadTask,
    request: string,
    readonly takeTurn: () => boolean,
    readonly onAnswer: (ok: boolean, body: () => string, waitedMs: number) => void,
  ) {
    this.#request = Buffer.from(request, 'latin1');
    this.whole = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const onread = { buffer: shared, callback: (length: number) => this.#read(length) };
    this.#socket = connect({ port: task.port, host: '127.0.0.1', noDelay: true, onread });
    this.#socket.once('connect', () => this.#next());
    this.#socket.on('error', () => this.#settle(false));
    this.#socket.on('close', () => this.#settle(false));
  }

  #next(): void {
    if (!this.takeTurn()) {
      this.#settle(true);
      this.#socket.destroy();
      return;
    }
    if (this.task.serialAt !== null) writeDigits(this.#request, this.task.serialAt, serial++);
    this.#sentMs = performance.now();
    this.#socket.write(this.#request);
  }

  #read(length: number): boolean {
    const bytes = shared.subarray(0, length);
    const all = this.#partial === null ? bytes : Buffer.concat([this.#partial, bytes]);
    if (all.length !== this.#usualBytes && answerEnd(all) !== all.length) {
      this.#partial = Buffer.from(all);
      return true;
    }
    this.#usualBytes = all.length;
    this.#partial = null;
    const waitedMs = performance.now() - this.#sentMs;
    this.onAnswer(all.indexOf(OK) === 0, () => bodyOf(all), waitedMs);
    const { gapMs = 0 } = this.task;
    if (gapMs > 0) setTimeout(() => this.#next(), gapMs);
    else this.#next();
    return true;
  }
}

const OK = Buffer.from('HTTP/1.1 200');

function answerEnd(bytes: Buffer): number | null {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return null;
  const length = /^content-length: (\d+)/im.exec(bytes.toString('latin1', 0, headEnd))?.[1];
  return headEnd + 4 + Number(length ?? 0);
}

function bodyOf(bytes: Buffer): string {
  return bytes.toString('utf8', bytes.indexOf('\r\n\r\n') + 4);
}

/** Changes the request in place, because making a new one would cost the client more than sending it. */
function writeDigits(bytes: Buffer, at: number, number: number): void {
  let rest = number;
  for (let digit = SERIAL_DIGITS - 1; digit >= 0; digit--) {
    bytes[at + digit] = 0x30 + (rest % 10);
    rest = Math.floor(rest / 10);
  }
}

const SERIAL_DIGITS = 9;

// ----------------------------------------------------------------- streams

const EVENT = Buffer.from('data: ');

class Stream {
  chunks = 0;
  failed = false;
  readonly started: Promise<void>;
  readonly #socket: Socket;

  constructor({ port, request }: LoadTask) {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.write(request, 'latin1');
    this.#socket.on('error', () => this.#fail());
    this.#socket.on('close', () => this.#fail());
    let headSeen = false;
    this.started = new Promise((resolve) => {
      this.#socket.on('data', (bytes) => {
        if (!headSeen && bytes.indexOf(OK) !== 0) this.#fail();
        headSeen = true;
        for (let at = bytes.indexOf(EVENT); at >= 0; at = bytes.indexOf(EVENT, at + 1)) {
          this.chunks += 1;
        }
        if (this.chunks > 1) resolve();
      });
      this.#socket.once('close', () => resolve());
    });
  }

  #fail(): void {
    this.failed = true;
  }

  close(): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }
}

let streams: Stream[] = [];

/** Called once every stream flows. */
async function openStreams(task: LoadTask): Promise<StreamCount> {
  streams = Array.from({ length: task.connections }, () => new Stream(task));
  await Promise.all(streams.map(({ started }) => started));
  return streamCount();
}

function streamCount(): StreamCount {
  const chunks = streams.reduce((sum, stream) => sum + stream.chunks, 0);
  const errors = streams.filter(({ failed }) => failed).length;
  return { type: 'count', chunks, errors };
}

function closeStreams(): void {
  for (const stream of streams) stream.close();
  streams = [];
}
