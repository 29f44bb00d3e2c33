/**
 * Owns the connections to one upstream: kept alive, one request at a time on each, with a bound on every wait.
 * It must never follow a redirect, send its key to another server, nor read more than its caller takes.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { limits, type RemoteSpec, type UpstreamSpec } from 'preface/plugin';
import { later } from '../../later.js';
import { broken, failureOfConnection, UpstreamError } from './failure.js';

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
  readonly #agent: HttpAgent | HttpsAgent;
  readonly #url: URL;
  readonly #base: string;
  readonly #host: string;
  readonly #headers: Record<string, string>;
  readonly #postHeaders: Record<string, string>;

  constructor(
    { url, apiKey }: UpstreamSpec,
    readonly waits: Waits,
  ) {
    this.#url = new URL(url);
    this.#base = this.#url.pathname.replace(/\/$/, '');
    // An address of IPv6 stands in brackets in a URL alone.
    this.#host = this.#url.hostname.replace(/^\[|\]$/g, '');
    this.#headers = {
      accept: 'application/json, text/event-stream',
      'user-agent': 'preface',
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    };
    this.#postHeaders = { ...this.#headers, 'content-type': 'application/json' };
    const Agent = this.#isSecure ? HttpsAgent : HttpAgent;
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: limits.upstreamConnectionsMax,
      maxFreeSockets: limits.upstreamConnectionsMax,
      // Ends connections that are idle; the waits of a request are watched here.
      timeout: limits.upstreamKeepAliveMs,
    });
  }

  /** Resolves with the head of an answer of any status. @throws UpstreamError */
  async ask({ path, body, signal, firstByteMs = this.waits.firstByteMs }: Ask): Promise<Answer> {
    signal.throwIfAborted();
    const startedMs = performance.now();
    const asked = new Asked(this.#request(path, body), signal, firstByteMs);
    try {
      const response = await asked.head;
      const leftMs = Math.max(1, firstByteMs - (performance.now() - startedMs));
      const waits = { leftMs, firstByteMs, silenceMs: this.waits.silenceMs };
      return new Answer(response, waits, asked);
    } catch (cause) {
      asked.release();
      signal.throwIfAborted();
      throw failureOfConnection(cause);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  get #isSecure(): boolean {
    return this.#url.protocol === 'https:';
  }

  /** With its body on the way. */
  #request(path: string, body: string | null): ClientRequest {
    const request = (this.#isSecure ? httpsRequest : httpRequest)({
      agent: this.#agent,
      host: this.#host,
      port: this.#url.port,
      path: this.#base + path,
      method: body === null ? 'GET' : 'POST',
      headers: body === null ? this.#headers : this.#postHeaders,
    });
    boundConnecting(request, this.waits.connectMs);
    request.end(body ?? undefined);
    return request;
  }
}

/** A request under way. What stops it before its head stops the request, and after it the answer. */
class Asked {
  readonly head: Promise<IncomingMessage>;
  #body: IncomingMessage | null = null;

  constructor(
    readonly request: ClientRequest,
    readonly signal: AbortSignal,
    firstByteMs: number,
  ) {
    const cancel = later(firstByteMs, () => this.stop(tooLate(firstByteMs)));
    this.head = new Promise((resolve, reject) => {
      request.once('response', (response) => {
        cancel();
        this.#body = response;
        resolve(response);
      });
      // It stays when the answer has begun: an error after that is told by the answer.
      request.on('error', (cause) => {
        cancel();
        reject(cause);
      });
    });
    signal.addEventListener('abort', this.#onAbort);
  }

  stop(cause: Error): void {
    (this.#body ?? this.request).destroy(cause);
  }

  /** Nobody will stop it any more. */
  release(): void {
    this.signal.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = () => this.stop(this.signal.reason as Error);
}

/** Names, connection and TLS. A connection that was kept open has all of them. */
function boundConnecting(request: ClientRequest, ms: number): void {
  request.once('socket', (socket) => {
    if (!socket.connecting) return;
    const stop = later(ms, () => request.destroy(notConnected()));
    socket.once('encrypted' in socket ? 'secureConnect' : 'connect', stop).once('close', stop);
  });
}

function notConnected(): Error {
  return Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' });
}

/** An answer whose head has arrived. The caller must read its bytes or drop it. */
export class Answer {
  /** Beyond so many bytes it is broken off. */
  bytesMax = Number.POSITIVE_INFINITY;
  #length = 0;
  #isRead = false;
  #isOver = false;
  #failure: Error | null = null;
  #wake: (() => void) | null = null;

  constructor(
    readonly body: IncomingMessage,
    readonly waits: {
      /** Time that remains to wait for the first byte. */
      readonly leftMs: number;
      readonly firstByteMs: number;
      readonly silenceMs: number;
    },
    readonly asked: Asked,
  ) {
    // Without a reader it must not end the process.
    body.on('error', (cause) => this.#over(cause));
    body.on('end', () => this.#over(null));
    body.on('close', () => this.#over(new Error('it was closed')));
  }

  get status(): number {
    return this.body.statusCode ?? 0;
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
    if (!this.#isRead) this.body.on('readable', () => this.#wake?.());
    this.#isRead = true;
    return this.#here() ?? (this.#isOver ? this.#end() : this.#later());
  }

  #here(): Buffer | null {
    const bytes = this.#isOver ? null : (this.body.read() as Buffer | null);
    this.#length += bytes?.length ?? 0;
    if (this.#length > this.bytesMax)
      throw this.#failed(broken(`it is longer than ${this.bytesMax} bytes`));
    return bytes;
  }

  #end(): null {
    if (this.#failure !== null) throw this.#failed(this.#failure);
    this.asked.release();
    return null;
  }

  /** The wait alone has a bound: a caller may take its time. */
  async #later(): Promise<Buffer | null> {
    const { leftMs, firstByteMs, silenceMs } = this.waits;
    const begun = this.#length > 0;
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
    this.#wake?.();
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
    this.asked.release();
    this.body.destroy();
  }

  #header(name: string): string | undefined {
    const value = this.body.headers[name];
    return typeof value === 'string' ? value : value?.[0];
  }
}

function tooLate(ms: number): UpstreamError {
  const message = `the upstream did not begin to answer within ${ms} ms`;
  return new UpstreamError(message, 'unavailable', 'elsewhere', 1000, true);
}
