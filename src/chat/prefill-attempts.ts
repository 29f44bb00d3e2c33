/**
 * Owns how a prefill is begun again: when the engine's process ended under it, is not back yet, or is full.
 * It must never begin one again that the engine refused, nor one that was told to stop.
 */
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

/** Goes on as long as it is told to come back: whoever gives the signal bounds the time. */
export async function attempted<Result>(
  run: () => Promise<Result>,
  clock: Clock,
  signal: AbortSignal,
): Promise<Result> {
  let ends = 0;
  for (let delayMs: number = limits.prefillRetryMs; ; delayMs *= 2) {
    try {
      return await run();
    } catch (cause) {
      if (!(cause instanceof ApiError) || cause.extra.retryAfterMs === undefined) throw cause;
      // It may be this very prefill that the process ends of.
      if (cause.row === 'server') ends += 1;
      if (ends >= limits.prefillAttemptsMax) throw cause;
    }
    await delay(Math.min(delayMs, limits.prefillRetryMsMax), clock, signal);
  }
}

function delay(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(ms, () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
    signal.addEventListener('abort', stop, { once: true });
  });
}
