/**
 * Owns the retries of a prefill: when the engine's process ended under it, is not back yet, or is full.
 * It must never retry a prefill that the engine refused, nor one that was stopped.
 */
import { type Clock, pause } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

/** Retries for as long as the engine asks for it: the caller bounds the time by the signal. */
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
      // This prefill may be what ended the process.
      if (cause.row === 'server') ends += 1;
      if (ends >= limits.prefillAttemptsMax) throw cause;
    }
    await pause(clock, Math.min(delayMs, limits.prefillRetryMsMax), signal);
  }
}
