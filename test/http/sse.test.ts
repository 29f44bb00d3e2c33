import t from 'tap';
import type { Clock } from '../../src/clock.js';
import { ApiError, errorEnvelope } from '../../src/errors.js';
import type { ByteSink, Headers } from '../../src/http/exchange.js';
import { EventStream, type EventStreamOptions } from '../../src/http/sse.js';
import { limits } from '../../src/limits/index.js';
import { dataFrame } from '../../src/protocol/wire-form.js';

class HandClock implements Clock {
  ms = 0;
  #tasks: { atMs: number; task: () => void }[] = [];

  nowMs(): number {
    return this.ms;
  }

  monotonicMs(): number {
    return this.ms;
  }

  after(delayMs: number, task: () => void): () => void {
    const entry = { atMs: this.ms + delayMs, task };
    this.#tasks.push(entry);
    return () => {
      this.#tasks = this.#tasks.filter((other) => other !== entry);
    };
  }

  advance(ms: number): void {
    this.ms += ms;
    const due = this.#tasks.filter((entry) => entry.atMs <= this.ms);
    this.#tasks = this.#tasks.filter((entry) => entry.atMs > this.ms);
    for (const { task } of due) task();
  }

  get waitingCount(): number {
    return this.#tasks.length;
  }
}

/** Records what a stream writes; `fast` says what its reader is. */
function open(stalled?: EventStreamOptions['stalled']): {
  events: EventStream;
  writes: string[];
  clock: HandClock;
  reader: { fast: boolean; drain(): void; leave(): void };
  headers: Headers | undefined;
  isEnded(): boolean;
  isCut(): boolean;
} {
  const writes: string[] = [];
  const clock = new HandClock();
  const reader = { fast: true, drain() {}, leave() {} };
  let [ended, cut] = [false, false];
  let headers: Headers | undefined;
  const sink: ByteSink = {
    write: (bytes) => {
      writes.push(String(bytes));
      return reader.fast;
    },
    drained: () =>
      new Promise((resolve) => {
        reader.drain = resolve;
      }),
    end: () => {
      ended = true;
    },
  };
  const exchange = {
    openStream: (_status: number, given?: Headers) => {
      headers = given;
      return sink;
    },
    onGone: (task: () => void) => {
      reader.leave = task;
    },
    onStop: null,
    destroy: () => {
      cut = true;
    },
  };
  const events = new EventStream(exchange, {
    clock,
    keepAlive: () => dataFrame('{"alive":1}'),
    failed: (error) => dataFrame(JSON.stringify(errorEnvelope(error))),
    ...(stalled === undefined ? {} : { stalled }),
  });
  return { events, writes, clock, reader, headers, isEnded: () => ended, isCut: () => cut };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('events of one turn leave in one write', async (t) => {
  const { events, writes, headers } = open();
  t.equal(headers?.['content-type'], 'text/event-stream');
  t.equal(headers?.['cache-control'], 'no-cache');
  events.send(dataFrame('{"a":1}'));
  events.send(dataFrame('{"b":2}'));
  t.same(writes, []);
  await turn();
  t.same(writes, ['data: {"a":1}\n\ndata: {"b":2}\n\n']);
  events.end(dataFrame('[DONE]'));
});

t.test('the good end is [DONE], the bad end is the error alone', async (t) => {
  const good = open();
  good.events.send(dataFrame('{}'));
  good.events.end(dataFrame('[DONE]'));
  good.events.end(dataFrame('[DONE]'));
  good.events.send(dataFrame('{"late":1}'));
  await turn();
  t.same(good.writes, ['data: {}\n\ndata: [DONE]\n\n']);
  t.ok(good.isEnded());
  const bad = open();
  bad.events.fail(new ApiError('overloaded'));
  t.match(bad.writes.join(''), /^data: \{"error":\{"type":"engine_overloaded_error".*\}\}\n\n$/);
  t.ok(bad.isEnded());
  t.equal(bad.clock.waitingCount, 0, 'no timer is left behind');
});

t.test(
  'a reader that pauses for too long in all is cut, however often it takes a little',
  async (t) => {
    const { events, clock, reader, isCut } = open();
    reader.fast = false;
    const pauseMs = limits.streamPausedMsMax / 4;
    const paused = async (ms: number) => {
      events.send(dataFrame('{}'));
      const drained = events.drained();
      clock.advance(ms);
      reader.drain();
      await drained;
    };
    for (let pauses = 0; pauses < 3; pauses += 1) await paused(pauseMs);
    await paused(pauseMs - 1);
    clock.advance(limits.streamPausedMsMax);
    t.notOk(isCut(), 'time between pauses does not count');
    await paused(1);
    t.ok(isCut());
  },
);

t.test('a reader that keeps the stream waiting is told of while it does', async (t) => {
  const told = { now: 0, cut: () => {} };
  const { events, clock, reader, isCut } = open((cut) => {
    told.now += 1;
    told.cut = cut;
    return () => {
      told.now -= 1;
    };
  });
  reader.fast = false;
  const pause = async (ms: number) => {
    events.send(dataFrame('{}'));
    const drained = events.drained();
    clock.advance(ms);
    const during = told.now;
    reader.drain();
    await drained;
    t.equal(told.now, 0, 'it reads on');
    return during;
  };
  t.equal(await pause(limits.streamStalledMsMax - 1), 0);
  clock.advance(limits.streamStalledMsMax);
  t.equal(await pause(0), 0, 'time between pauses does not count');
  t.equal(await pause(1), 1);
  t.equal(await pause(0), 1, 'from then on at once');
  events.send(dataFrame('{}'));
  void events.drained();
  clock.advance(0);
  t.notOk(isCut());
  told.cut();
  t.ok(isCut());
});

t.test('a silence is broken by the keep-alive chunk, activity puts it off', async (t) => {
  const { events, writes, clock } = open();
  clock.advance(limits.keepAliveMs - 1);
  events.send(dataFrame('{}'));
  await turn();
  clock.advance(limits.keepAliveMs - 1);
  await turn();
  t.same(writes, ['data: {}\n\n']);
  clock.advance(1);
  await turn();
  t.same(writes, ['data: {}\n\n', 'data: {"alive":1}\n\n']);
  clock.advance(limits.keepAliveMs);
  await turn();
  t.equal(writes.length, 3);
  events.end(dataFrame('[DONE]'));
});

t.test('a slow reader is told to the sender until it has drained', async (t) => {
  const { events, reader } = open();
  reader.fast = false;
  t.ok(events.send(dataFrame('{}')), 'nobody knows yet');
  await turn();
  t.notOk(events.send(dataFrame('{}')));
  const drained = events.drained();
  reader.fast = true;
  reader.drain();
  await drained;
  t.ok(events.send(dataFrame('{}')));
  events.end(dataFrame('[DONE]'));
});

t.test('a turn that brings much is written before it piles up', async (t) => {
  const { events, writes } = open();
  events.send(dataFrame(`"${'x'.repeat(limits.streamBacklogBytesMax)}"`));
  t.equal(writes.length, 1);
  events.end(dataFrame('[DONE]'));
});

t.test('after the client left nothing is written and no timer runs', async (t) => {
  const { events, writes, reader, clock } = open();
  events.send(dataFrame('{}'));
  reader.leave();
  await turn();
  t.ok(events.send(dataFrame('{}')));
  events.end(dataFrame('[DONE]'));
  t.same(writes, []);
  t.equal(clock.waitingCount, 0);
});
