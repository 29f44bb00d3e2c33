/**
 * Owns the shape of server-sent events on the wire, their batching, and the sign of life of a silent stream.
 * It must never write a comment, an `event:` line or an empty event: widely copied clients crash on them.
 */
import type { Clock } from '../clock.js';
import { type ApiError, errorEnvelope } from '../errors.js';
import { limits } from '../limits/index.js';
import type { ByteSink, Exchange, Headers } from './exchange.js';

/** The part of an exchange that a stream of events needs. */
export type StreamOpener = Pick<Exchange, 'openStream' | 'onGone' | 'onStop'>;

export interface EventStreamOptions {
  readonly clock: Clock;
  /** JSON of a chunk that changes nothing, sent after a silence. */
  readonly keepAlive: () => string;
  /** The silence; `limits.keepAliveMs` if absent. */
  readonly keepAliveMs?: number;
  readonly headers?: Headers;
}

// `; charset` after the type breaks a client.
const STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
};

export class EventStream {
  readonly #sink: ByteSink;
  readonly #clock: Clock;
  readonly #keepAlive: () => string;
  readonly #keepAliveMs: number;
  #pending = '';
  #queued = false;
  #fluent = true;
  #ended = false;
  #lastMs: number;
  #cancelTimer: () => void;

  constructor(exchange: StreamOpener, options: EventStreamOptions) {
    this.#sink = exchange.openStream(200, { ...STREAM_HEADERS, ...options.headers });
    this.#clock = options.clock;
    this.#keepAlive = options.keepAlive;
    this.#keepAliveMs = options.keepAliveMs ?? limits.keepAliveMs;
    this.#lastMs = this.#clock.monotonicMs();
    this.#cancelTimer = this.#clock.after(this.#keepAliveMs, this.#beat);
    exchange.onGone(() => this.#stop());
    exchange.onStop = (error) => this.fail(error);
  }

  /** Queues one event; all events of one turn of the loop leave in one write. False: wait for `drained`. */
  send(json: string): boolean {
    if (this.#ended) return true;
    this.#pending += `data: ${json}\n\n`;
    if (this.#pending.length >= limits.streamBacklogBytesMax) this.flush();
    else this.#queue();
    return this.#fluent;
  }

  async drained(): Promise<void> {
    this.flush();
    await this.#sink.drained();
    this.#fluent = true;
  }

  /** The good end. */
  done(): void {
    this.#end('data: [DONE]\n\n');
  }

  /** The bad end: the error is the last event, and no `[DONE]` follows. */
  fail(error: ApiError): void {
    this.#end(`data: ${JSON.stringify(errorEnvelope(error))}\n\n`);
  }

  /** Writes what is queued at once; the first event of an answer should not wait. */
  flush(): void {
    if (this.#pending === '' || this.#ended) return;
    const bytes = this.#pending;
    this.#pending = '';
    this.#lastMs = this.#clock.monotonicMs();
    this.#fluent = this.#sink.write(bytes);
  }

  #end(lastEvent: string): void {
    if (this.#ended) return;
    this.#pending += lastEvent;
    this.flush();
    this.#stop();
    this.#sink.end();
  }

  #stop(): void {
    this.#ended = true;
    this.#pending = '';
    this.#cancelTimer();
  }

  #queue(): void {
    if (this.#queued) return;
    this.#queued = true;
    flushSoon(this.#flushQueued);
  }

  readonly #flushQueued = (): void => {
    this.#queued = false;
    this.flush();
  };

  /** One timer a stream, set again only when it fires, so that a chunk costs none. */
  readonly #beat = (): void => {
    if (this.#ended) return;
    const silentMs = this.#clock.monotonicMs() - this.#lastMs;
    const due = silentMs >= this.#keepAliveMs;
    if (due) this.send(this.#keepAlive());
    const restMs = due ? this.#keepAliveMs : this.#keepAliveMs - silentMs;
    this.#cancelTimer = this.#clock.after(restMs, this.#beat);
  };
}

/** One immediate for all streams of a turn, not one each. */
let waiting: (() => void)[] = [];

function flushSoon(task: () => void): void {
  if (waiting.push(task) === 1) setImmediate(flushAll);
}

function flushAll(): void {
  const tasks = waiting;
  waiting = [];
  for (const task of tasks) task();
}
