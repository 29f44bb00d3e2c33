/**
 * Owns what can go wrong with an upstream: who is at fault, whether another try can help, what a client may read of it.
 * It must never carry a key, an address or a header of an upstream: its text reaches clients.
 */
import { limits } from 'preface/plugin';

/** Where the same request may be tried again, as long as no byte of an answer has come. */
export type Again = 'anywhere' | 'elsewhere' | 'never';

/** The contract's codes; null is a failure in the middle. */
export type FailureCode = 'overloaded' | 'unavailable' | 'refused';

export class UpstreamError extends Error {
  readonly code?: FailureCode;
  readonly retryAfterMs?: number;

  constructor(
    message: string,
    code: FailureCode | null,
    readonly again: Again,
    retryAfterMs: number | null = null,
    /** Says that the upstream is not to be asked until it shows life. */
    readonly isDead = false,
  ) {
    super(message);
    if (code !== null) this.code = code;
    if (retryAfterMs !== null) this.retryAfterMs = retryAfterMs;
  }
}

export interface Refusal {
  readonly status: number;
  readonly retryAfterMs: number | null;
  /** The body, as far as it was read. */
  readonly text: string;
}

/** What an answer that is no success means. */
export function failureOf({ status, retryAfterMs, text }: Refusal, secret: string | null) {
  const said = reasonOf(text, secret);
  if (status >= 300 && status < 400) {
    const message = `the upstream answered with a redirect (${status}), and none is followed`;
    return new UpstreamError(message, 'unavailable', 'elsewhere');
  }
  if (status === 429) {
    return new UpstreamError('the upstream is overloaded', 'overloaded', 'anywhere', retryAfterMs);
  }
  if (status === 401 || status === 403 || status === 404) {
    // Ours to mend, not the client's: what it says may name our account there.
    const message = `the upstream does not serve us the model (${status})`;
    return new UpstreamError(message, 'unavailable', 'elsewhere');
  }
  if (status === 408 || status === 502 || status === 503 || status === 504) {
    const message = `the upstream is not available (${status})`;
    return new UpstreamError(message, 'unavailable', 'anywhere', retryAfterMs ?? 1000, true);
  }
  if (status >= 400 && status < 500) {
    return new UpstreamError(`the upstream refuses the request: ${said}`, 'refused', 'never');
  }
  return new UpstreamError(`the upstream failed (${status})`, null, 'elsewhere');
}

/** What broke before or in an answer, by the error of the connection. */
export function failureOfConnection(cause: unknown): UpstreamError {
  if (cause instanceof UpstreamError) return cause;
  const code = (cause as { code?: string } | null)?.code ?? '';
  const why = UNREACHED[code];
  const isDead = why !== undefined;
  const message = why ?? 'the connection to the upstream broke';
  return new UpstreamError(message, 'unavailable', 'anywhere', 1000, isDead);
}

/** Nobody is there. A connection that breaks may only have been idle for too long. */
const UNREACHED: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'the upstream does not take connections in time',
  ECONNREFUSED: 'the upstream refuses connections',
  EHOSTUNREACH: 'the upstream cannot be reached',
  ENOTFOUND: 'the name of the upstream is not known',
};

/** After the first byte nothing is tried again: the client has part of an answer. */
export function broken(why: string): UpstreamError {
  return new UpstreamError(`the upstream broke off its answer: ${why}`, null, 'never');
}

/** The message of the usual envelope, or what there is; without what must not be seen. */
export function reasonOf(text: string, secret: string | null): string {
  const message = messageIn(text) ?? text;
  const clean = secret === null ? message : message.replaceAll(secret, '…');
  const plain = clean.replace(/\s+/g, ' ').trim();
  // Cut between two halves of a character it would be no text any more.
  return Buffer.from(plain.slice(0, limits.upstreamReasonLengthMax)).toString();
}

function messageIn(text: string): string | null {
  try {
    const value = JSON.parse(text) as { error?: { message?: unknown } | string; message?: unknown };
    const { error } = value;
    const message = typeof error === 'object' ? error.message : (error ?? value.message);
    return typeof message === 'string' ? message : null;
  } catch {
    return null;
  }
}
