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
  readonly #headers: Record<string, string>;

  constructor(
    { url, apiKey }: UpstreamSpec,
    readonly waits: Waits,
  ) {
    this.#url = new URL(url);
    this.#base = this.#url.pathname.replace(/\/$/, '');
    this.#headers = {
      accept: 'application/json, text/event-stream',
      'user-agent': 'preface',
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    };
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
    const stop = new AbortController();
    const onAbort = () => stop.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const release = () => signal.removeEventListener('abort', onAbort);
    const startedMs = performance.now();
    try {
      const asked = this.#request(path, body, stop.signal);
      const response = await inTime(asked, firstByteMs, tooLate(firstByteMs), stop);
      const leftMs = Math.max(1, firstByteMs - (performance.now() - startedMs));
      const waits = { leftMs, firstByteMs, silenceMs: this.waits.silenceMs };
      return new Answer(response, waits, stop, release);
    } catch (cause) {
      release();
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

  #request(path: string, body: string | null, signal: AbortSignal): Promise<IncomingMessage> {
    const { hostname, port } = this.#url;
    const options = {
      agent: this.#agent,
      // An address of IPv6 stands in brackets in a URL alone.
      host: hostname.replace(/^\[|\]$/g, ''),
      port,
      path: this.#base + path,
      method: body === null ? 'GET' : 'POST',
      headers:
        body === null ? this.#headers : { ...this.#headers, 'content-type': 'application/json' },
      signal,
    };
    return new Promise((resolve, reject) => {
      const request = (this.#isSecure ? httpsRequest : httpRequest)(options, resolve);
      // It stays when the answer has begun: an error after that is told by the answer.
      request.on('error', reject);
      boundConnecting(request, this.waits.connectMs);
      request.end(body ?? undefined);
    });
  }
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
  constructor(
    readonly body: IncomingMessage,
    readonly waits: {
      /** Time that remains to wait for the first byte. */
      readonly leftMs: number;
      readonly firstByteMs: number;
      readonly silenceMs: number;
    },
    readonly stop: AbortController,
    readonly release: () => void,
  ) {
    // A reader gets this error too; without a reader it must not end the process.
    body.on('error', () => {});
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

  /** As they come. Pull is the back-pressure. Leaving the loop drops the rest. @throws UpstreamError, also beyond the bound. */
  async *bytes(bytesMax = Number.POSITIVE_INFINITY): AsyncGenerator<Buffer> {
    const { leftMs, firstByteMs, silenceMs } = this.waits;
    const iterator = this.body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    let length = 0;
    let [ms, late] = [leftMs, tooLate(firstByteMs)];
    let begun = false;
    try {
      for (;;) {
        const next = await inTime(iterator.next(), ms, late, this.stop);
        if (next.done) return;
        if (!begun) [ms, late] = [silenceMs, broken(`no byte for ${silenceMs} ms`)];
        begun = true;
        length += next.value.length;
        if (length > bytesMax) throw broken(`it is longer than ${bytesMax} bytes`);
        yield next.value;
      }
    } catch (cause) {
      const failure = failureOfConnection(cause);
      throw begun && failure.again !== 'never' ? broken(failure.message) : failure;
    } finally {
      this.drop();
    }
  }

  /** The whole text, cut at its bound. */
  async text(): Promise<string> {
    const parts: Buffer[] = [];
    let length = 0;
    for await (const part of this.bytes()) {
      parts.push(part);
      length += part.length;
      if (length > limits.upstreamBodyBytesMax) break;
    }
    return Buffer.concat(parts).toString('utf8');
  }

  drop(): void {
    this.release();
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

async function inTime<Value>(
  promise: Promise<Value>,
  ms: number,
  late: UpstreamError,
  stop: AbortController,
): Promise<Value> {
  let cancel = () => {};
  const timeout = new Promise<never>((_, reject) => {
    cancel = later(ms, () => {
      reject(late);
      stop.abort(late);
    });
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    cancel();
  }
}
