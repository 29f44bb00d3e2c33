/**
 * Owns the proof that a prefill is begun again where that can help, and only there, by a simulated clock.
 * It must wait for no real time.
 */
import t from 'tap';
import { attempted } from '../../src/chat/prefill-attempts.js';
import { ApiError } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import { SimulatedClock } from '../support/simulated-clock.js';

const comeBack = { retryAfterMs: 1000 };
const ended = new ApiError('server', { error: 'the inference process ended' }, comeBack);
const restarting = new ApiError('unavailable', { error: 'restarting' }, comeBack);
const full = new ApiError('overloaded', {}, comeBack);

/** Throws these in turn, then succeeds. */
function failing(clock: SimulatedClock, causes: readonly Error[], signal: AbortSignal) {
  const startsMs: number[] = [];
  const run = async () => {
    const cause = causes[startsMs.length];
    startsMs.push(clock.monotonicMs());
    if (cause) throw cause;
    return 'done';
  };
  const result = attempted(run, clock, signal).catch((cause: unknown) => cause);
  return { startsMs, result };
}

const { signal } = new AbortController();

t.test('engines that end, are not back yet or are full: later, and ever less often', async (t) => {
  const clock = new SimulatedClock();
  const { startsMs, result } = failing(clock, [ended, restarting, full, restarting], signal);
  await clock.advance(60_000);
  t.equal(await result, 'done');
  const first = limits.prefillRetryMs;
  t.strictSame(startsMs, [0, first, 3 * first, 7 * first, 15 * first]);
  t.equal(clock.timerCount, 0);
});

t.test('one under which the engine ends each time is given up', async (t) => {
  const clock = new SimulatedClock();
  const { startsMs, result } = failing(clock, Array(10).fill(ended), signal);
  await clock.advance(600_000);
  t.equal(await result, ended);
  t.equal(startsMs.length, limits.prefillAttemptsMax);
});

t.test('an engine that is away for long is asked every few seconds', async (t) => {
  const clock = new SimulatedClock();
  const { startsMs, result } = failing(clock, Array(30).fill(restarting), signal);
  await clock.advance(30 * limits.prefillRetryMsMax);
  t.equal(await result, 'done');
  const gaps = startsMs.slice(1).map((ms, at) => ms - (startsMs[at] ?? 0));
  t.equal(Math.max(...gaps), limits.prefillRetryMsMax);
});

t.test('what the engine refused is not asked again', async (t) => {
  const clock = new SimulatedClock();
  for (const cause of [new ApiError('unavailable', { error: 'no space' }), new Error('broken')]) {
    const { startsMs, result } = failing(clock, [cause], signal);
    t.equal(await result, cause);
    t.equal(startsMs.length, 1);
  }
});

t.test('who waits can be stopped', async (t) => {
  const clock = new SimulatedClock();
  const stop = new AbortController();
  const { startsMs, result } = failing(clock, Array(30).fill(restarting), stop.signal);
  await clock.advance(limits.prefillRetryMs);
  const reason = new Error('nobody wants it');
  stop.abort(reason);
  t.equal(await result, reason);
  t.equal(startsMs.length, 2);
  t.equal(clock.timerCount, 0);
});
