import t from 'tap';
import type { Clock } from '../../src/clock.js';
import { ApiError } from '../../src/errors.js';
import type { ByteSink, Headers } from '../../src/http/exchange.js';
import { EventStream } from '../../src/http/sse.js';
import { limits } from '../../src/limits/index.js';

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
function open(): {
  events: EventStream;
  writes: string[];
  clock: HandClock;
  reader: { fast: boolean; drain(): void; leave(): void };
  headers: Headers | undefined;
  isEnded(): boolean;
} {
  const writes: string[] = [];
  const clock = new HandClock();
  const reader = { fast: true, drain() {}, leave() {} };
  let ended = false;
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
  };
  const events = new EventStream(exchange, { clock, keepAlive: () => '{"alive":1}' });
  return { events, writes, clock, reader, headers, isEnded: () => ended };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('events of one turn leave in one write', async (t) => {
  const { events, writes, headers } = open();
  t.equal(headers?.['content-type'], 'text/event-stream');
  t.equal(headers?.['cache-control'], 'no-cache');
  events.send('{"a":1}');
  events.send('{"b":2}');
  t.same(writes, []);
  await turn();
  t.same(writes, ['data: {"a":1}\n\ndata: {"b":2}\n\n']);
  events.done();
});

t.test('the good end is [DONE], the bad end is the error alone', async (t) => {
  const good = open();
  good.events.send('{}');
  good.events.done();
  good.events.done();
  good.events.send('{"late":1}');
  await turn();
  t.same(good.writes, ['data: {}\n\ndata: [DONE]\n\n']);
  t.ok(good.isEnded());
  const bad = open();
  bad.events.fail(new ApiError('overloaded'));
  t.match(bad.writes.join(''), /^data: \{"error":\{"type":"engine_overloaded_error".*\}\}\n\n$/);
  t.ok(bad.isEnded());
  t.equal(bad.clock.waitingCount, 0, 'no timer is left behind');
});

t.test('a silence is broken by the keep-alive chunk, activity puts it off', async (t) => {
  const { events, writes, clock } = open();
  clock.advance(limits.keepAliveMs - 1);
  events.send('{}');
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
  events.done();
});

t.test('a slow reader is told to the sender until it has drained', async (t) => {
  const { events, reader } = open();
  reader.fast = false;
  t.ok(events.send('{}'), 'nobody knows yet');
  await turn();
  t.notOk(events.send('{}'));
  const drained = events.drained();
  reader.fast = true;
  reader.drain();
  await drained;
  t.ok(events.send('{}'));
  events.done();
});

t.test('a turn that brings much is written before it piles up', async (t) => {
  const { events, writes } = open();
  events.send(`"${'x'.repeat(limits.streamBacklogBytesMax)}"`);
  t.equal(writes.length, 1);
  events.done();
});

t.test('after the client left nothing is written and no timer runs', async (t) => {
  const { events, writes, reader, clock } = open();
  events.send('{}');
  reader.leave();
  await turn();
  t.ok(events.send('{}'));
  events.done();
  t.same(writes, []);
  t.equal(clock.waitingCount, 0);
});
