/**
 * Owns the one way in which tests and benches poll for a condition.
 * It must never wait without a bound, nor fail without naming what it waited for.
 */
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_MS_MIN = 5;
const LOOK_MS_MAX = 100;
/** Of the time that was waited, and so little that a bench may wait so: a look is often a request, for which a service at its start has no time. */
const LOOK_SHARE = 1 / 50;
/** Long enough for a busy machine; a wait that succeeds ends at once. */
const BOUND_MS = 20_000;

/**
 * Calls `look` until it gives a truthy value. A `look` that throws ends the wait.
 * @param what names the condition, or tells it at the end; the source of `look` if absent.
 * @returns the value. @throws Error that names the condition, when it does not hold in time.
 */
export async function until<Found>(
  look: () => Found | Promise<Found>,
  boundMs = BOUND_MS,
  what: string | (() => string) = String(look),
): Promise<Found> {
  const beganMs = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found;
    const waitedMs = performance.now() - beganMs;
    if (waitedMs > boundMs) {
      const told = typeof what === 'string' ? what : what();
      throw new Error(`not within ${boundMs} ms: ${told}`);
    }
    await delay(Math.min(Math.max(LOOK_MS_MIN, waitedMs * LOOK_SHARE), LOOK_MS_MAX));
  }
}
