/**
 * Owns the comparison of the windows with an exact log of every use, under clocks that jump.
 * It must keep the reference free of buckets.
 */
import fc from 'fast-check';
import t from 'tap';
import {
  addedTo,
  emptyWindow,
  type WindowSpan,
  waitMs,
  windowAt,
} from '../../src/rules/rate-window.js';

const span = { windowMs: 60_000, bucketMs: 1_000 };
const daySpan = { windowMs: 86_400_000, bucketMs: 900_000 };
const DAY_MS = daySpan.windowMs;
const MAX = 1_000;

interface Use {
  readonly stepMs: number;
  readonly amount: number;
}

function useAfter(...steps: readonly (readonly [min: number, max: number])[]) {
  const stepMs = fc.oneof(...steps.map(([min, max]) => fc.integer({ min, max })));
  return fc.record({ stepMs, amount: fc.integer({ min: 1, max: 400 }) });
}

const minuteUse = useAfter([0, 900], [0, 70_000], [-3_600_000, -1]);
const dayUse = useAfter([0, 800_000], [0, DAY_MS + 2_000_000], [0, 4 * DAY_MS], [-9 * DAY_MS, -1]);

interface Logged {
  readonly atMs: number;
  readonly amount: number;
}

/** Until the log itself would have room: each use leaves on its own. */
function leastWaitMs(log: readonly Logged[], windowMs: number, need: number, nowMs: number) {
  const inside = log.filter(({ atMs }) => nowMs - atMs < windowMs);
  let left = inside.reduce((sum, { amount }) => sum + amount, 0);
  let wait = 0;
  for (const { atMs, amount } of inside) {
    if (left + need <= MAX) break;
    left -= amount;
    wait = atMs + windowMs - nowMs;
  }
  return wait;
}

/** Counts the waits into `tally`: a property that never waits proves nothing of them. */
function keepsTheLog(span: WindowSpan, use: fc.Arbitrary<Use>, tally: { waited: number }) {
  return fc.property(fc.array(use, { maxLength: 300, size: 'max' }), (uses) => {
    let window = emptyWindow;
    let nowMs = 1_700_000_000_000;
    // Time that never runs back: what a log of a steady clock would hold.
    let steadyMs = 0;
    const log: Logged[] = [];
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
        tally.waited += 1;
        const leastMs = leastWaitMs(log, span.windowMs, amount, steadyMs);
        if (wait < leastMs || wait > leastMs + span.bucketMs) return false;
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
}

for (const [name, of, use] of [
  ['minute', span, minuteUse],
  ['day', daySpan, dayUse],
] as const) {
  t.test(
    `${name}: never less than the log, hardly more, bounded, and the wait is true`,
    async (t) => {
      const tally = { waited: 0 };
      const result = fc.check(keepsTheLog(of, use, tally), { numRuns: 300 });
      t.notOk(result.failed, `seed ${result.seed}`, { counterexample: result.counterexample });
      t.ok(tally.waited > 1_000, `${tally.waited} waits`);
    },
  );
}

t.test('what can never fit is told apart from what has to wait', async (t) => {
  t.equal(waitMs(emptyWindow, span, { need: 11, max: 10 }, 5), null);
  const full = addedTo(emptyWindow, span, 10, 5);
  t.equal(waitMs(full, span, { need: 1, max: 10 }, 5), 60_000);
});
