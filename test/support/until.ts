/**
 * Owns the one way in which tests and benches wait for something they cannot be told of.
 * It must never wait without a bound, nor end without saying what it waited for.
 */
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_MS = 5;
/** Long enough for a busy machine; a wait that succeeds takes no longer than it must. */
const BOUND_MS = 20_000;

/**
 * Looks until there is something true. A look that throws ends the wait.
 * @param what names what is awaited; the source of `look` if absent.
 * @returns what was found. @throws Error that names it, when it is not there in time.
 */
export async function until<Found>(
  look: () => Found | Promise<Found>,
  boundMs = BOUND_MS,
  what = String(look),
): Promise<Found> {
  const endMs = performance.now() + boundMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > endMs) throw new Error(`not within ${boundMs} ms: ${what}`);
    await delay(LOOK_MS);
  }
}
