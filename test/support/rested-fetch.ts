/**
 * Owns a `fetch` that, as SDKs do, asks again where its connection had rested and was closed before a byte of the answer.
 * It must never hide the loss of a connection that had not rested: that is the service's fault.
 */
import { subscribe } from 'node:diagnostics_channel';

/** Those of `fetch` itself: the part of what its library tells that is used. */
interface Told {
  readonly request: object;
  readonly socket?: object;
  readonly error?: object;
}

interface Sent {
  readonly socket: object;
  /** How long its connection had rested; 0 for a new one. */
  readonly restedMs: number;
}

const sent = new WeakMap<object, Sent>();
/** When the last answer of a connection was whole. */
const restsSinceMs = new WeakMap<object, number>();
const restedMsOf = new WeakMap<object, number>();

on('undici:client:sendHeaders', ({ request, socket = {} }) => {
  const nowMs = performance.now();
  sent.set(request, { socket, restedMs: nowMs - (restsSinceMs.get(socket) ?? nowMs) });
});
on('undici:request:trailers', ({ request }) => {
  const socket = sent.get(request)?.socket;
  if (socket) restsSinceMs.set(socket, performance.now());
});
on('undici:request:error', ({ request, error = {} }) => {
  const restedMs = sent.get(request)?.restedMs;
  if (restedMs !== undefined) restedMsOf.set(error, restedMs);
});

function on(channel: string, take: (told: Told) => void): void {
  subscribe(channel, (told) => take(told as Told));
}

export interface Patience {
  /** A connection that had rested so long may be lost: servers close those. */
  readonly restedMsMin: number;
  readonly lost: (restedMs: number, cause: Error) => void;
}

export async function restedFetch(
  address: string,
  init: RequestInit,
  { restedMsMin, lost }: Patience,
): Promise<Response> {
  for (;;) {
    try {
      return await fetch(address, init);
    } catch (thrown) {
      const { cause } = thrown as { cause?: unknown };
      const restedMs = cause instanceof Error ? restedMsOf.get(cause) : undefined;
      if (restedMs === undefined || restedMs < restedMsMin) {
        throw new Error(`lost after ${restedMs} ms of rest`, { cause: thrown });
      }
      lost(restedMs, cause as Error);
    }
  }
}
