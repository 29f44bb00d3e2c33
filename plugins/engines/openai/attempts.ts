/**
 * Owns when and where a request is tried again: on another replica at once, on the same one after a pause.
 * It must never retry a request whose answer has begun, nor one that every replica would refuse.
 */
import { limits } from 'preface/plugin';
import { UpstreamError } from './failure.js';
import type { Replica } from './replicas.js';

/** `run` resolves when the first byte has arrived. @throws UpstreamError of the last attempt. */
export async function firstToAnswer<Value>(
  order: readonly Replica[],
  signal: AbortSignal,
  run: (replica: Replica) => Promise<Value>,
): Promise<Value> {
  const open = [...order];
  const tried = new Set<Replica>();
  let pauseMs: number = limits.upstreamRetryMs;
  for (let tries = 1; ; tries += 1) {
    const replica = open.shift() as Replica;
    tried.add(replica);
    try {
      return await run(replica);
    } catch (cause) {
      signal.throwIfAborted();
      if (!(cause instanceof UpstreamError) || cause.again === 'never') throw cause;
      if (cause.isDead) replica.died(cause.message);
      const waitMs = Math.max(pauseMs, cause.code === 'overloaded' ? (cause.retryAfterMs ?? 0) : 0);
      if (cause.again === 'anywhere' && waitMs <= limits.upstreamRetryMsMax) open.push(replica);
      const [next] = open;
      if (next === undefined || tries >= limits.upstreamAttemptsMax) throw cause;
      if (!tried.has(next)) continue;
      await pause(waitMs, signal);
      pauseMs *= 2;
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
  });
}
