/**
 * Owns the figures of the service as Prometheus reads them: every name begins with `preface_` and ends with its unit.
 * It must never take a label from a client: what a label can be is known when the service starts.
 *
 * A report costs a few additions on plain counters; names, labels and text are made when somebody asks.
 */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type {
  ChatNote,
  Report,
  RequestReport,
  RouteName,
  TakeReport,
  WorkerKind,
} from './report.js';

export interface ModelGauges {
  readonly model: string;
  readonly slots: number;
  /** Chats that wait for their turn, and their tokens: what is to be evaluated and the longest answers. */
  readonly waiting: { readonly count: number; readonly work: number };
}

/** What is looked at when somebody asks. */
export interface Gauges {
  /** Chats under way, and those that wait for the engine. */
  readonly chats: () => { readonly waiting: number; readonly running: number };
  readonly models: () => readonly ModelGauges[];
  readonly requests: () => { readonly active: number; readonly bodyBytesHeld: number };
  /** By what they are for: `records`, `snapshots`. */
  readonly diskBytes: () => Promise<Readonly<Record<string, number>>>;
  /** Left to write, where the data folder is. */
  readonly diskFreeBytes: () => Promise<number>;
  /** Resident, by process: `main`, `inference`. */
  readonly memoryBytes: () => Promise<Readonly<Record<string, number>>>;
}

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
const LAG_RESOLUTION_MS = 20;
const NS_PER_S = 1e9;

/** Counts by a few words, each kept as one number. */
class Tally<Key> {
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

export class Metrics {
  readonly #registry = new Registry();
  readonly #requests = new Tally<RouteName | null>();
  readonly #tokens = new Tally<'prompt' | 'completion' | 'saved'>();
  readonly #caches = new Tally<string>();
  readonly #errors = new Tally<string>();
  readonly #workers = new Tally<WorkerKind>();
  readonly #extractions = new Tally<string>();
  readonly #lag: IntervalHistogram = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  readonly #firstContent: Histogram;
  readonly #queueTime: Histogram;
  readonly #extractionTime: Histogram;
  #streamErrors = 0;
  #faults = 0;

  constructor() {
    this.#firstContent = this.#histogram(
      'preface_chat_first_content_seconds',
      'Time from the arrival of a chat to the first text or tool call of its answer.',
    );
    this.#queueTime = this.#histogram(
      'preface_chat_queue_seconds',
      'Time from the queue to the start of a chat in the engine.',
    );
    this.#extractionTime = this.#histogram(
      'preface_extraction_duration_seconds',
      'Time to read one document.',
    );
    this.#defineCounters();
    this.#defineProcess();
    this.#lag.enable();
  }

  readonly take: TakeReport = (report: Report) => {
    if (report.type === 'request') this.#takeRequest(report);
    else if (report.type === 'worker-ended') this.#workers.add(report.worker, '');
    else if (report.type === 'fault') this.#faults += 1;
    else if (report.type === 'extraction') {
      this.#extractions.add(report.format, report.outcome);
      if (report.outcome !== 'overloaded') {
        this.#extractionTime.observe(report.durationMs / 1000);
      }
    }
  };

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All figures in the text format. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** How often one of a kind ended by itself. */
  workersEnded(): Record<WorkerKind, number> {
    const counts = { inference: 0, tokenize: 0, extraction: 0 };
    for (const [worker, , count] of this.#workers.entries()) counts[worker] = count;
    return counts;
  }

  close(): void {
    this.#lag.disable();
  }

  #takeRequest({ route, status, note }: RequestReport): void {
    this.#requests.add(route, status);
    if (note.firstContentMs !== null) this.#firstContent.observe(note.firstContentMs / 1000);
    if (note.errorType !== null) this.#errors.add(note.errorType, '');
    if (note.chat === null) return;
    if (status === 200 && note.errorType !== null) this.#streamErrors += 1;
    this.#takeChat(note.chat);
  }

  /** One that never began is counted as a request alone. */
  #takeChat({ promptTokens, cachedTokens, completionTokens, times, ...note }: ChatNote): void {
    if (times === null) return;
    this.#queueTime.observe(times.queueMs / 1000);
    this.#tokens.add('prompt', note.model, promptTokens);
    this.#tokens.add('completion', note.model, completionTokens);
    this.#tokens.add('saved', note.model, cachedTokens);
    if (note.cacheStatus !== null) this.#caches.add(note.cacheStatus, note.missClass ?? '');
  }

  // ------------------------------------------------------------ definitions

  #defineCounters(): void {
    const tokens = (kind: 'prompt' | 'completion' | 'saved') => () =>
      [...this.#tokens.entries()]
        .filter(([of]) => of === kind)
        .map(([, model, count]) => ({ labels: { model }, count }));
    this.#counter('preface_http_requests_total', 'Requests by route and status.', () =>
      [...this.#requests.entries()].map(([route, status, count]) => ({
        labels: { method: route?.method ?? 'any', route: route?.path ?? 'none', status },
        count,
      })),
    );
    this.#counter('preface_errors_total', 'Answers that are errors, by their type.', () =>
      [...this.#errors.entries()].map(([type, , count]) => ({ labels: { type }, count })),
    );
    this.#counter(
      'preface_prompt_tokens_total',
      'Prompt tokens of chats, reused ones included.',
      tokens('prompt'),
    );
    this.#counter(
      'preface_completion_tokens_total',
      'Tokens generated by chats.',
      tokens('completion'),
    );
    this.#counter(
      'preface_saved_tokens_total',
      'Prompt tokens that the engine did not evaluate.',
      tokens('saved'),
    );
    this.#counter(
      'preface_cache_lookups_total',
      'Chats that named a context cache, by what became of it and why.',
      () =>
        [...this.#caches.entries()].map(([status, reason, count]) => ({
          labels: { status, reason },
          count,
        })),
    );
    this.#counter(
      'preface_worker_restarts_total',
      'Child processes and threads that ended by themselves and were replaced.',
      () =>
        [...this.#workers.entries()].map(([worker, , count]) => ({ labels: { worker }, count })),
    );
    this.#counter('preface_extractions_total', 'Documents read, by format and outcome.', () =>
      [...this.#extractions.entries()].map(([format, outcome, count]) => ({
        labels: { format, outcome },
        count,
      })),
    );
    this.#counter('preface_stream_errors_total', 'Streams that ended with an error event.', () => [
      { labels: {}, count: this.#streamErrors },
    ]);
    this.#counter('preface_faults_total', 'Failures of the service itself.', () => [
      { labels: {}, count: this.#faults },
    ]);
  }

  /** What the parts hold at the moment; called once, when they are there. */
  watch(gauges: Gauges): void {
    this.#gauge('preface_chats_running', 'Chats that the engine works on.', () => ({
      '': gauges.chats().running,
    }));
    this.#gauge('preface_chats_waiting', 'Chats that wait for the engine.', () => ({
      '': gauges.chats().waiting,
    }));
    this.#gauge('preface_http_requests_active', 'Requests under way.', () => ({
      '': gauges.requests().active,
    }));
    this.#gauge('preface_http_bodies_bytes', 'Bodies that are not whole or not read yet.', () => ({
      '': gauges.requests().bodyBytesHeld,
    }));
    const byModel = (name: string, help: string, read: (of: ModelGauges) => number) => {
      const values = () => Object.fromEntries(gauges.models().map((of) => [of.model, read(of)]));
      this.#gauge(name, help, values, 'model');
    };
    byModel('preface_slots', 'Chats that a model can run at the same time.', (of) => of.slots);
    byModel(
      'preface_queue_chats',
      'Chats that wait for their turn at a model.',
      (of) => of.waiting.count,
    );
    byModel(
      'preface_queue_tokens',
      'Tokens of them: what is to be evaluated and the longest answers.',
      (of) => of.waiting.work,
    );
    this.#gauge('preface_disk_bytes', 'Bytes on disk.', gauges.diskBytes, 'part');
    this.#gauge('preface_disk_free_bytes', 'Bytes free for the data folder.', async () => ({
      '': await gauges.diskFreeBytes(),
    }));
    this.#gauge(
      'preface_resident_memory_bytes',
      'Resident memory of each process.',
      gauges.memoryBytes,
      'process',
    );
  }

  #defineProcess(): void {
    this.#gauge('preface_heap_used_bytes', 'JavaScript heap of the main process.', () => ({
      '': process.memoryUsage().heapUsed,
    }));
    this.#gauge('preface_start_time_seconds', 'When the service started, Unix time.', () => ({
      '': Math.round(performance.timeOrigin / 1000),
    }));
    this.#counter('preface_cpu_seconds_total', 'CPU time of the main process.', () => {
      const { user, system } = process.cpuUsage();
      return [{ labels: {}, count: (user + system) / 1e6 }];
    });
    const lag = (value: number) => Math.max(0, value / NS_PER_S - LAG_RESOLUTION_MS / 1000) || 0;
    this.#gauge(
      'preface_event_loop_lag_seconds',
      'How late timers were since the last look, by quantile.',
      () => {
        const seen = this.#lag;
        const quantiles = {
          '0.5': lag(seen.percentile(50)),
          '0.99': lag(seen.percentile(99)),
          '1': lag(seen.max),
        };
        seen.reset();
        return quantiles;
      },
      'quantile',
    );
  }

  #histogram(name: string, help: string): Histogram {
    return new Histogram({ name, help, buckets: SECONDS, registers: [this.#registry] });
  }

  #counter(
    name: string,
    help: string,
    read: () => readonly { readonly labels: Record<string, string>; readonly count: number }[],
  ): void {
    new Counter({
      name,
      help,
      labelNames: LABELS,
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { labels, count } of read()) this.inc(labels, count);
      },
    });
  }

  /** @param label what the keys of the values are; without it there is one value, under the empty key. */
  #gauge(
    name: string,
    help: string,
    read: () => Readonly<Record<string, number>> | Promise<Readonly<Record<string, number>>>,
    label?: string,
  ): void {
    new Gauge({
      name,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [this.#registry],
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
