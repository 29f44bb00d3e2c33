/**
 * Owns the comparison of the windows with an exact log of every use, under clocks that jump.
 * It must keep the reference free of buckets.
 */
import fc from 'fast-check';
import t from 'tap';
import { addedTo, emptyWindow, waitMs, windowAt } from '../../src/rules/rate-window.js';

const span = { windowMs: 60_000, bucketMs: 1_000 };
const MAX = 1_000;
const use = fc.record({
  stepMs: fc.oneof(
    fc.integer({ min: 0, max: 900 }),
    fc.integer({ min: 0, max: 70_000 }),
    fc.integer({ min: -3_600_000, max: -1 }),
  ),
  amount: fc.integer({ min: 1, max: 400 }),
});

t.test('never less than the log, hardly more, bounded, and the wait is true', async (t) => {
  const run = fc.property(fc.array(use, { maxLength: 300 }), (uses) => {
    let window = emptyWindow;
    let nowMs = 1_700_000_000_000;
    // Time that never runs back: what a log of a steady clock would hold.
    let steadyMs = 0;
    const log: { atMs: number; amount: number }[] = [];
    const logged = (withinMs: number) =>
      log.reduce((sum, { atMs, amount }) => sum + (steadyMs - atMs < withinMs ? amount : 0), 0);
    for (const { stepMs, amount } of uses) {
      nowMs += stepMs;
      steadyMs += Math.max(0, stepMs);
      window = windowAt(window, span, nowMs);
      const wait = waitMs(window, span, { need: amount, max: MAX }, nowMs);
      if (wait === 0) {
        window = addedTo(window, span, amount, nowMs);
        log.push({ atMs: steadyMs, amount });
      } else if (wait !== null) {
        const later = nowMs + wait;
        if (waitMs(window, span, { need: amount, max: MAX }, later) !== 0) return false;
      }
      const { used, buckets } = window;
      if (used < logged(span.windowMs) || used > MAX) return false;
      if (used > logged(span.windowMs + span.bucketMs)) return false;
      if (buckets.length > span.windowMs / span.bucketMs + 2) return false;
    }
    return true;
  });
  const result = fc.check(run, { numRuns: 300 });
  t.notOk(result.failed, `seed ${result.seed}`, { counterexample: result.counterexample });
});

t.test('what can never fit is told apart from what has to wait', async (t) => {
  t.equal(waitMs(emptyWindow, span, { need: 11, max: 10 }, 5), null);
  const full = addedTo(emptyWindow, span, 10, 5);
  t.equal(waitMs(full, span, { need: 1, max: 10 }, 5), 60_000);
});
