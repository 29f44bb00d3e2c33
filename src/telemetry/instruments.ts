/**
 * Owns the instruments of the metrics: counters that add up, gauges that are read on demand, and their samples.
 * It must never know what a metric means.
 */
import type { Histogram } from 'prom-client';
// The parts alone: the whole package loads OpenTelemetry with it, fifty files more at each start.
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Registry from 'prom-client/lib/registry.js';

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const LABELS = [
  'method',
  'route',
  'status',
  'type',
  'model',
  'reason',
  'worker',
  'format',
  'outcome',
];

/** Counts by two keys. */
export class Tally<Key> {
  readonly #counts = new Map<Key, Map<string | number, number>>();

  add(first: Key, second: string | number, amount = 1): void {
    let row = this.#counts.get(first);
    if (row === undefined) {
      row = new Map();
      this.#counts.set(first, row);
    }
    row.set(second, (row.get(second) ?? 0) + amount);
  }

  *entries(): Generator<[Key, string, number]> {
    for (const [first, row] of this.#counts) {
      for (const [second, count] of row) yield [first, String(second), count];
    }
  }
}

/** Histogram of durations. The library's own takes fifty times as long for one observation. */
export class Durations {
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  /** The last one counts durations beyond all bounds. */
  readonly #counts = new Float64Array(SECONDS.length + 1);
  #sum = 0;

  constructor(
    readonly name: string,
    readonly help: string,
  ) {}

  observe(seconds: number): void {
    let at = 0;
    while (at < SECONDS.length && seconds > (SECONDS[at] ?? 0)) at += 1;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += seconds;
  }

  get() {
    const { name, help, type, aggregator } = this;
    let count = 0;
    const values = Array.from(this.#counts, (own, at) => {
      count += own;
      const labels: Record<string, string | number> = { le: SECONDS[at] ?? '+Inf' };
      return { metricName: `${name}_bucket`, labels, value: count };
    });
    values.push({ metricName: `${name}_sum`, labels: {}, value: this.#sum });
    values.push({ metricName: `${name}_count`, labels: {}, value: count });
    return { name, help, type, aggregator, values };
  }
}

export class Instruments {
  readonly registry = new Registry();

  histogram(name: string, help: string): Durations {
    const durations = new Durations(name, help);
    // The registry uses only the name and the samples of a metric, but its type names a class of the library.
    this.registry.registerMetric(durations as unknown as Histogram);
    return durations;
  }

  counter(
    name: string,
    help: string,
    read: () => readonly { readonly labels: Record<string, string>; readonly count: number }[],
  ): void {
    new Counter({
      name,
      help,
      labelNames: LABELS,
      registers: [this.registry],
      collect() {
        this.reset();
        for (const { labels, count } of read()) this.inc(labels, count);
      },
    });
  }

  /** @param label name for the keys of the values; without it there is one value, under the empty key. */
  gauge(
    name: string,
    help: string,
    read: () => Readonly<Record<string, number>> | Promise<Readonly<Record<string, number>>>,
    label?: string,
  ): void {
    new Gauge({
      name,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [this.registry],
      async collect() {
        const values = await read();
        this.reset();
        for (const [key, value] of Object.entries(values)) {
          this.set(label === undefined ? {} : { [label]: key }, value);
        }
      },
    });
  }
}
