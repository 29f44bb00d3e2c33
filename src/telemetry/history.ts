/**
 * Owns what the service did over the last hour and the last day, in steps: counts, times to first content, queue, memory.
 * It must never grow: both spans are rings whose size is known when the service starts.
 *
 * Each report is added to the newest step of both rings, so that no step is ever made of others.
 */
import type { Clock } from '../clock.js';
import type { Gauges } from './metrics.js';
import { type ChatNote, isOfUser, type Report, type RequestReport } from './report.js';

const SPANS = {
  hour: { stepS: 10, steps: 360 },
  day: { stepS: 300, steps: 288 },
} as const;

export type HistorySpan = keyof typeof SPANS;

/** Of each step. The last four are levels: the highest that was seen. */
const COLUMNS = [
  'requests',
  'refused',
  'failed',
  'prompt_tokens',
  'completion_tokens',
  'saved_tokens',
  'cache_lookups',
  'cache_hits',
  'chats_running',
  'chats_waiting',
  'memory_main_bytes',
  'memory_engines_bytes',
] as const;

export type HistoryColumn = (typeof COLUMNS)[number];

export interface HistoryTable {
  readonly stepS: number;
  /** Steps of the whole span; the columns have as many at most. */
  readonly steps: number;
  /** Unix seconds at which the first step begins. */
  readonly firstS: number;
  readonly columns: Readonly<Record<HistoryColumn, readonly number[]>>;
  /** Milliseconds; null where no chat had its first content. */
  readonly firstContent: Readonly<Record<'p50' | 'p95' | 'p99', readonly (number | null)[]>>;
}

/** Read now and then, since nothing reports a level. */
export interface Levels {
  readonly running: number;
  readonly waiting: number;
  readonly mainBytes: number;
  readonly enginesBytes: number;
}

export async function levelsOf({
  chats,
  memoryBytes,
}: Pick<Gauges, 'chats' | 'memoryBytes'>): Promise<Levels> {
  const { main = 0, ...engines } = await memoryBytes();
  const enginesBytes = Object.values(engines).reduce((sum, bytes) => sum + bytes, 0);
  return { ...chats(), mainBytes: main, enginesBytes };
}

/** Short queues count, too. */
const LOOK_MS = 1_000;

export class History {
  readonly #rings = { hour: new Ring(SPANS.hour), day: new Ring(SPANS.day) };
  readonly #clock: Clock;
  #stopLooking = () => {};
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(report: Report): void {
    if (!isOfUser(report)) return;
    const nowMs = this.#clock.nowMs();
    takeRequest(this.#rings.hour, nowMs, report);
    takeRequest(this.#rings.day, nowMs, report);
  }

  /** Looks at once, and from then on again and again. */
  watch(read: () => Promise<Levels>): void {
    const again = () => {
      if (!this.#closed) this.#stopLooking = this.#clock.after(LOOK_MS, look);
    };
    const look = () => {
      read()
        .then((levels) => this.#note(levels))
        .then(again, again);
    };
    look();
  }

  close(): void {
    this.#closed = true;
    this.#stopLooking();
  }

  table(span: HistorySpan): HistoryTable {
    const ring = this.#rings[span];
    ring.at(this.#clock.nowMs());
    return ring.table();
  }

  #note({ running, waiting, mainBytes, enginesBytes }: Levels): void {
    const nowMs = this.#clock.nowMs();
    for (const ring of [this.#rings.hour, this.#rings.day]) {
      const at = ring.at(nowMs);
      ring.raise('chats_running', at, running);
      ring.raise('chats_waiting', at, waiting);
      ring.raise('memory_main_bytes', at, mainBytes);
      ring.raise('memory_engines_bytes', at, enginesBytes);
    }
  }
}

function takeRequest(ring: Ring, nowMs: number, { status, note }: RequestReport): void {
  const at = ring.at(nowMs);
  ring.add('requests', at, 1);
  if (status >= 500 || (status === 200 && note.errorType !== null)) ring.add('failed', at, 1);
  else if (status >= 400) ring.add('refused', at, 1);
  if (note.firstContentMs !== null) ring.observe(at, note.firstContentMs);
  if (note.vectors !== undefined) ring.add('prompt_tokens', at, note.vectors.promptTokens);
  // A chat that never began used nothing.
  if (note.chat !== null && note.chat.times !== null) takeChat(ring, at, note.chat);
}

function takeChat(ring: Ring, at: number, chat: ChatNote): void {
  ring.add('prompt_tokens', at, chat.promptTokens);
  ring.add('completion_tokens', at, chat.completionTokens);
  ring.add('saved_tokens', at, chat.cachedTokens);
  if (chat.cacheStatus === null) return;
  ring.add('cache_lookups', at, 1);
  if (chat.cacheStatus === 'hit') ring.add('cache_hits', at, 1);
}

/** Five buckets double the time: a quantile is off by 7 % at most. */
const BUCKETS_PER_OCTAVE = 5;
/** From 1 ms to 4 minutes. */
const BUCKETS = 18 * BUCKETS_PER_OCTAVE;

class Ring {
  readonly #stepS: number;
  readonly #steps: number;
  readonly #columns: Readonly<Record<HistoryColumn, Float64Array>>;
  readonly #times: Uint32Array;
  /** Steps since 1970. */
  #first: number | null = null;
  #newest = 0;

  constructor({ stepS, steps }: { readonly stepS: number; readonly steps: number }) {
    this.#stepS = stepS;
    this.#steps = steps;
    this.#columns = byName(COLUMNS, () => new Float64Array(steps));
    this.#times = new Uint32Array(steps * BUCKETS);
  }

  /** The place of the step of this time. A clock that is set back stays in the newest. */
  at(nowMs: number): number {
    const step = Math.floor(nowMs / 1000 / this.#stepS);
    if (this.#first === null) {
      this.#first = step;
      this.#newest = step;
    }
    if (step > this.#newest) this.#goTo(step);
    return this.#newest % this.#steps;
  }

  add(column: HistoryColumn, at: number, amount: number): void {
    const values = this.#columns[column];
    values[at] = (values[at] ?? 0) + amount;
  }

  raise(column: HistoryColumn, at: number, level: number): void {
    const values = this.#columns[column];
    if (level > (values[at] ?? 0)) values[at] = level;
  }

  observe(at: number, ms: number): void {
    const bucket = Math.floor(Math.log2(Math.max(ms, 1)) * BUCKETS_PER_OCTAVE);
    const place = at * BUCKETS + Math.min(bucket, BUCKETS - 1);
    this.#times[place] = (this.#times[place] ?? 0) + 1;
  }

  table(): HistoryTable {
    const newest = this.#newest;
    const first = Math.max(this.#first ?? newest, newest - this.#steps + 1);
    const places = Array.from({ length: newest - first + 1 }, (_, i) => (first + i) % this.#steps);
    const column = (name: HistoryColumn) => {
      const values = this.#columns[name];
      return places.map((at) => values[at] ?? 0);
    };
    const quantiles = (share: number) => places.map((at) => this.#quantile(at, share));
    return {
      stepS: this.#stepS,
      steps: this.#steps,
      firstS: first * this.#stepS,
      columns: byName(COLUMNS, column),
      firstContent: { p50: quantiles(0.5), p95: quantiles(0.95), p99: quantiles(0.99) },
    };
  }

  /** Empties what lies between: those steps are over, and nothing happened in them. */
  #goTo(step: number): void {
    const from = Math.max(this.#newest + 1, step - this.#steps + 1);
    for (let each = from; each <= step; each += 1) {
      const at = each % this.#steps;
      for (const name of COLUMNS) this.#columns[name][at] = 0;
      this.#times.fill(0, at * BUCKETS, (at + 1) * BUCKETS);
    }
    this.#newest = step;
  }

  #quantile(at: number, share: number): number | null {
    const taken = this.#times.subarray(at * BUCKETS, (at + 1) * BUCKETS);
    const wanted = taken.reduce((sum, count) => sum + count, 0) * share;
    if (wanted === 0) return null;
    let below = 0;
    const bucket = taken.findIndex((count) => {
      below += count;
      return below >= wanted;
    });
    const middle = 2 ** ((bucket + 0.5) / BUCKETS_PER_OCTAVE);
    return Number(middle.toPrecision(3));
  }
}

function byName<Name extends string, Value>(
  names: readonly Name[],
  make: (name: Name) => Value,
): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>;
}
