/**
 * Owns the connections to one upstream: kept alive, one request at a time on each, with a bound on every wait.
 * It must never follow a redirect, send its key to another server, nor read more than its caller takes.
 */
import { limits, type RemoteSpec, type UpstreamSpec } from 'preface/plugin';
import { Pool } from 'undici';
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

type Body = AsyncIterable<Buffer> & {
  destroy(): void;
  on(event: 'error', listener: () => void): void;
};

export class Connection {
  readonly #pool: Pool;
  readonly #base: string;
  readonly #headers: Record<string, string>;

  constructor(
    { url, apiKey }: UpstreamSpec,
    readonly waits: Waits,
  ) {
    const { origin, pathname } = new URL(url);
    this.#base = pathname.replace(/\/$/, '');
    this.#headers = {
      accept: 'application/json, text/event-stream',
      'user-agent': 'preface',
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
    };
    this.#pool = new Pool(origin, {
      connections: limits.upstreamConnectionsMax,
      connect: { timeout: waits.connectMs },
      keepAliveTimeout: limits.upstreamKeepAliveMs,
      // This class watches both: the library restarts its timers with every part of a head or body.
      headersTimeout: 0,
      bodyTimeout: 0,
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
    const request = {
      path: this.#base + path,
      method: body === null ? ('GET' as const) : ('POST' as const),
      headers:
        body === null ? this.#headers : { ...this.#headers, 'content-type': 'application/json' },
      body,
      signal: stop.signal,
    };
    try {
      const asked = this.#pool.request(request);
      const response = await inTime(asked, firstByteMs, tooLate(firstByteMs), stop);
      const leftMs = Math.max(1, firstByteMs - (performance.now() - startedMs));
      const waits = { leftMs, firstByteMs, silenceMs: this.waits.silenceMs };
      return new Answer(response.statusCode, response.headers, response.body, waits, stop, release);
    } catch (cause) {
      release();
      signal.throwIfAborted();
      throw failureOfConnection(cause);
    }
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}

/** An answer whose head has arrived. The caller must read its bytes or drop it. */
export class Answer {
  constructor(
    readonly status: number,
    readonly headers: Readonly<Record<string, string | string[] | undefined>>,
    readonly body: Body,
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

  /** From `retry-after-ms`, or from `retry-after` in seconds or as a date. */
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

  /** The bytes as they arrive. The pull is the back-pressure. Leaving the loop drops the rest. @throws UpstreamError */
  async *bytes(): AsyncGenerator<Buffer> {
    const { leftMs, firstByteMs, silenceMs } = this.waits;
    const iterator = this.body[Symbol.asyncIterator]();
    let [ms, late] = [leftMs, tooLate(firstByteMs)];
    let begun = false;
    try {
      for (;;) {
        const next = await inTime(iterator.next(), ms, late, this.stop);
        if (next.done) return;
        if (!begun) [ms, late] = [silenceMs, broken(`no byte for ${silenceMs} ms`)];
        begun = true;
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
    const value = this.headers[name];
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
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(late);
      stop.abort(late);
    }, ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
