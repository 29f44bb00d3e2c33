/** What the service remembers of its last hour and day: counts by step, quantiles, bounds. */
import t from 'tap';
import { History, type Levels } from '../../src/telemetry/history.js';
import type { ChatNote, RequestReport } from '../../src/telemetry/report.js';
import { SimulatedClock } from '../support/simulated-clock.js';

const HOUR_STEP_MS = 10_000;
const chat: ChatNote = {
  model: 'm',
  stream: true,
  promptTokens: 100,
  cachedTokens: 60,
  completionTokens: 7,
  draftedTokens: 0,
  acceptedTokens: 0,
  cacheStatus: 'hit',
  missClass: null,
  missReason: null,
  times: { queueUs: 1, tokenizeUs: 1, cacheUs: 1, prefillUs: 1, generateUs: 1 },
};

interface Told {
  readonly status?: number;
  readonly path?: string;
  readonly firstContentMs?: number | null;
  readonly errorType?: string | null;
  readonly chat?: ChatNote | null;
}

function request({
  status = 200,
  path = '/v1/chat/completions',
  firstContentMs = null,
  errorType = null,
  chat = null,
}: Told = {}): RequestReport {
  const note = { account: 'alice', chat, firstContentMs, errorType };
  const route = { method: 'POST', path };
  return { type: 'request', requestId: 'r', route, status, durationMs: 5, note };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, each) => all + each, 0);
}

t.test('counts what users asked for, and nothing else', async (t) => {
  const history = new History(new SimulatedClock());
  history.take(request({ chat }));
  history.take(request({ chat: { ...chat, cacheStatus: 'miss', cachedTokens: 0 } }));
  history.take(request({ chat: { ...chat, times: null } }));
  history.take(request({ status: 429 }));
  history.take(request({ status: 503 }));
  history.take(request({ errorType: 'server_error' }));
  history.take(request({ path: '/admin/v1/status' }));
  history.take({ type: 'notice', text: 'none' });
  for (const span of ['hour', 'day'] as const) {
    t.match(history.table(span).columns, {
      requests: [6],
      refused: [1],
      failed: [2],
      prompt_tokens: [200],
      completion_tokens: [14],
      saved_tokens: [60],
      cache_lookups: [2],
      cache_hits: [1],
    });
  }
});

t.test('a step is over, and what was in none is nothing', async (t) => {
  const clock = new SimulatedClock();
  const history = new History(clock);
  history.take(request());
  clock.jump(3 * HOUR_STEP_MS);
  history.take(request());
  history.take(request());
  t.same(history.table('hour').columns.requests, [1, 0, 0, 2]);
  t.equal(history.table('hour').firstS, Date.UTC(2030, 0, 1) / 1000);
  t.same(history.table('day').columns.requests, [3]);
  clock.jump(-5 * HOUR_STEP_MS);
  history.take(request());
  t.same(history.table('hour').columns.requests, [1, 0, 0, 3], 'a clock that is set back');
});

t.test('has as many steps as its span, however long the service runs', async (t) => {
  const clock = new SimulatedClock();
  const history = new History(clock);
  for (let i = 0; i < 1_000; i += 1) {
    history.take(request({ firstContentMs: 10 }));
    clock.jump(HOUR_STEP_MS);
  }
  const { columns, steps, firstS, stepS, firstContent } = history.table('hour');
  t.equal(steps, 360);
  t.equal(columns.requests.length, 360);
  t.equal(firstContent.p50.length, 360);
  t.equal(sum(columns.requests), 359, 'all but the step that has just begun');
  t.equal(firstS + 359 * stepS, clock.nowMs() / 1000);
  t.equal(sum(history.table('day').columns.requests), 1_000);
  clock.jump(2 * 86_400_000);
  t.equal(sum(history.table('hour').columns.requests), 0, 'after a long silence');
  t.equal(sum(history.table('day').columns.requests), 0);
  t.equal(history.table('day').columns.requests.length, 288);
});

t.test('times to first content as quantiles of each step, within 7 %', async (t) => {
  const clock = new SimulatedClock();
  const history = new History(clock);
  for (let ms = 1; ms <= 1_000; ms += 1) history.take(request({ firstContentMs: ms * 2 }));
  clock.jump(HOUR_STEP_MS);
  const { p50, p95, p99 } = history.table('hour').firstContent;
  for (const [seen, real] of [
    [p50, 1_000],
    [p95, 1_900],
    [p99, 1_980],
  ] as const) {
    t.equal(seen[1], null, 'nothing came in the second step');
    t.ok(Math.abs((seen[0] ?? 0) / real - 1) <= 0.08, `${seen[0]} is about ${real}`);
  }
  for (const ms of [0, 0.01, 1e9]) history.take(request({ firstContentMs: ms }));
  t.ok((history.table('hour').firstContent.p99[1] ?? 0) > 200_000, 'the longest has a place');
});

t.test('levels are the highest of a step, and a failed look is tried again', async (t) => {
  const clock = new SimulatedClock();
  const history = new History(clock);
  const looks: (Levels | Error)[] = [
    { running: 1, waiting: 7, mainBytes: 10, enginesBytes: 5 },
    new Error('no figures'),
    { running: 2, waiting: 0, mainBytes: 20, enginesBytes: 4 },
  ];
  history.watch(async () => {
    const look = looks.shift();
    if (look === undefined || look instanceof Error) throw look;
    return look;
  });
  await clock.advance(2_500);
  t.match(history.table('hour').columns, {
    chats_running: [2],
    chats_waiting: [7],
    memory_main_bytes: [20],
    memory_engines_bytes: [5],
  });
  history.close();
  await clock.advance(5_000);
  t.equal(clock.timerCount, 0, 'it looks no more');
});

t.test('a request costs microseconds', async (t) => {
  const history = new History(new SimulatedClock());
  const report = request({ chat, firstContentMs: 250 });
  for (let i = 0; i < 20_000; i += 1) history.take(report);
  const before = process.cpuUsage();
  for (let i = 0; i < 100_000; i += 1) history.take(report);
  const { user, system } = process.cpuUsage(before);
  const us = (user + system) / 100_000;
  t.comment(`${us.toFixed(2)} µs`);
  t.ok(us < 5, `${us} µs`);
});
