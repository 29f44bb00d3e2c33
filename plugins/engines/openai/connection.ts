/**
 * Owns the requests to one upstream and their answers, with a bound on every wait.
 * It must never follow a redirect, send its key to another server, nor read more than its caller takes.
 */
import { limits, type RemoteSpec, type UpstreamSpec } from 'preface/plugin';
import { later } from '../../later.js';
import { broken, failureOfConnection, UpstreamError } from './failure.js';
import { HttpAnswer } from './http-answer.js';
import { type Link, Links, type LinkUser } from './links.js';

export type Waits = Pick<RemoteSpec, 'connectMs' | 'firstByteMs' | 'silenceMs'>;

/** A request; with `body` it is a POST, else a GET. */
export interface Ask {
  readonly path: string;
  readonly body: string | null;
  readonly signal: AbortSignal;
  /** Replaces the usual bound. */
  readonly firstByteMs?: number;
}

export class Connection {
  readonly #links: Links;
  readonly #base: string;
  readonly #headers: string;

  constructor(
    { url, apiKey }: UpstreamSpec,
    readonly waits: Waits,
  ) {
    const at = new URL(url);
    this.#links = new Links(at, waits.connectMs);
    this.#base = at.pathname.replace(/\/$/, '');
    // A key is printable ASCII without spaces, by the settings.
    const lines = [
      `host: ${at.host}`,
      'accept: application/json, text/event-stream',
      'user-agent: preface',
      'connection: keep-alive',
      ...(apiKey === null ? [] : [`authorization: Bearer ${apiKey}`]),
    ];
    this.#headers = lines.join('\r\n');
  }

  /** Resolves with the head of an answer of any status. @throws UpstreamError */
  async ask({ path, body, signal, firstByteMs = this.waits.firstByteMs }: Ask): Promise<Answer> {
    signal.throwIfAborted();
    const waits = { firstByteMs, silenceMs: this.waits.silenceMs };
    const answer = new Answer(this.#links, this.#text(path, body), waits, signal);
    try {
      await answer.begun;
      return answer;
    } catch (cause) {
      signal.throwIfAborted();
      throw failureOfConnection(cause);
    }
  }

  close(): void {
    this.#links.close();
  }

  #text(path: string, body: string | null): string {
    const target = `${this.#base}${path} HTTP/1.1\r\n${this.#headers}\r\n`;
    if (body === null) return `GET ${target}\r\n`;
    const length = Buffer.byteLength(body);
    return `POST ${target}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`;
  }
}

/** One answer. Once its head has arrived the caller must read its bytes or drop it. */
export class Answer implements LinkUser {
  /** Beyond so many bytes it is broken off. */
  bytesMax = Number.POSITIVE_INFINITY;
  /** Resolves when its head is here. */
  readonly begun: Promise<void>;
  readonly #http = new HttpAnswer((piece) => this.#hold(piece));
  /** What has come and is not taken. */
  readonly #pieces: Buffer[] = [];
  #heldBytes = 0;
  #link: Link | null = null;
  #length = 0;
  #isOver = false;
  #failure: Error | null = null;
  #wake: (() => void) | null = null;
  #onHead: () => void = () => {};
  #onNone: (cause: Error) => void = () => {};
  readonly #startedMs = performance.now();

  constructor(
    readonly links: Links,
    readonly request: string,
    readonly waits: Pick<Waits, 'firstByteMs' | 'silenceMs'>,
    readonly signal: AbortSignal,
  ) {
    this.begun = new Promise((resolve, reject) => {
      this.#onHead = resolve;
      this.#onNone = reject;
    });
    const { firstByteMs } = waits;
    const cancel = later(firstByteMs, () => this.#over(tooLate(firstByteMs)));
    this.begun.then(cancel, cancel);
    signal.addEventListener('abort', this.#onAbort);
    links.take(this);
  }

  begin(link: Link): void {
    this.#link = link;
    link.send(this.request);
  }

  bytes(bytes: Buffer): void {
    const { head } = this.#http;
    try {
      this.#http.feed(bytes);
    } catch (cause) {
      this.#over(cause as Error);
      return;
    }
    if (head === null && this.#http.head !== null) this.#onHead();
    if (this.#http.isOver) this.#over(null);
    else if (this.#heldBytes >= limits.upstreamHeldBytesMax) this.#link?.pause();
    this.#wake?.();
  }

  ended(): void {
    try {
      this.#http.end();
      this.#over(null);
    } catch (cause) {
      this.#over(cause as Error);
    }
  }

  lost(cause: Error): void {
    this.#link = null;
    this.#over(cause);
  }

  readonly #onAbort = () => this.#over(this.signal.reason as Error);

  get status(): number {
    return this.#http.head?.status ?? 0;
  }

  /** As told in `retry-after-ms` or `retry-after`, in seconds or as a date. */
  get retryAfterMs(): number | null {
    const ms = Number(this.#header('retry-after-ms') ?? Number.NaN);
    if (ms >= 0) return ms;
    const after = this.#header('retry-after');
    if (after === undefined) return null;
    const seconds = Number(after);
    const told = Number.isNaN(seconds) ? Date.parse(after) - Date.now() : seconds * 1000;
    return Number.isNaN(told) ? null : Math.max(0, told);
  }

  get isStream(): boolean {
    return this.#header('content-type')?.startsWith('text/event-stream') ?? false;
  }

  /**
   * The next bytes as they come, null after the last ones; without a promise where they are here. Pull is the back-pressure.
   * @throws UpstreamError, also beyond the bound.
   */
  next(): Buffer | null | Promise<Buffer | null> {
    return this.#here() ?? (this.#isOver ? this.#end() : this.#later());
  }

  #hold(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#heldBytes += piece.length;
  }

  #here(): Buffer | null {
    const { length } = this.#pieces;
    if (length === 0 || this.#failure !== null) return null;
    const bytes = length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
    this.#pieces.length = 0;
    if (this.#heldBytes >= limits.upstreamHeldBytesMax) this.#link?.resume();
    this.#heldBytes = 0;
    this.#length += bytes.length;
    if (this.#length > this.bytesMax)
      throw this.#failed(broken(`it is longer than ${this.bytesMax} bytes`));
    return bytes;
  }

  #end(): null {
    if (this.#failure !== null) throw this.#failed(this.#failure);
    return null;
  }

  /** The wait alone has a bound: a caller may take its time. */
  async #later(): Promise<Buffer | null> {
    const { firstByteMs, silenceMs } = this.waits;
    const begun = this.#length > 0;
    const leftMs = Math.max(1, firstByteMs - (performance.now() - this.#startedMs));
    const cancel = later(begun ? silenceMs : leftMs, () => {
      this.#over(begun ? broken(`no byte for ${silenceMs} ms`) : tooLate(firstByteMs));
    });
    try {
      for (;;) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        const bytes = this.#here();
        if (bytes !== null || this.#isOver) return bytes ?? this.#end();
      }
    } finally {
      this.#wake = null;
      cancel();
    }
  }

  #over(failure: Error | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#failure = failure;
    this.signal.removeEventListener('abort', this.#onAbort);
    this.#leave(failure);
    if (failure !== null) this.#onNone(failure);
    this.#wake?.();
  }

  /** A connection that carried a whole answer may carry another one. */
  #leave(failure: Error | null): void {
    const link = this.#link;
    this.#link = null;
    if (link === null) this.links.leave(this);
    else if (failure !== null) link.leave();
    else this.links.release(link, this.#http.keepsOpen, this.#idleMsMax);
  }

  /** As the server tells, less the time that the next request may be on its way. */
  get #idleMsMax(): number {
    const told = /timeout=(\d+)/.exec(this.#header('keep-alive') ?? '')?.[1];
    return told === undefined ? Number.POSITIVE_INFINITY : Number(told) * 800;
  }

  #failed(cause: Error): UpstreamError {
    this.drop();
    const failure = failureOfConnection(cause);
    return this.#length > 0 && failure.again !== 'never' ? broken(failure.message) : failure;
  }

  /** The whole text, cut at its bound. */
  async text(): Promise<string> {
    const parts: Buffer[] = [];
    let length = 0;
    for (let part = await this.next(); part !== null; part = await this.next()) {
      parts.push(part);
      length += part.length;
      if (length > limits.upstreamBodyBytesMax) {
        this.drop();
        break;
      }
    }
    return Buffer.concat(parts).toString('utf8');
  }

  drop(): void {
    this.#over(new Error('nobody reads it'));
  }

  #header(name: string): string | undefined {
    return this.#http.head?.headers.get(name);
  }
}

function tooLate(ms: number): UpstreamError {
  const message = `the upstream did not begin to answer within ${ms} ms`;
  return new UpstreamError(message, 'unavailable', 'elsewhere', 1000, true);
}
