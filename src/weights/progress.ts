/**
 * Owns the display of a long download or reading: a bar on a terminal, plain lines elsewhere.
 * It must never write to standard output, which belongs to the results.
 */
import { createRequire } from 'node:module';
import type bars from 'cli-progress';
import type { Options, Params } from 'cli-progress';
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';

/** Loaded for the first bar: most commands show none. */
const library = () => createRequire(import.meta.url)('cli-progress') as typeof bars;

export interface Meter {
  at(doneBytes: number): void;
  end(): void;
}

export interface PageMeter {
  /** @param pages null when unknown. */
  at(page: number, pages: number | null): void;
  end(): void;
}

export interface Progress {
  readonly terminal: boolean;
  line(text: string): void;
  /** @param doneBytes what an earlier attempt has downloaded. */
  start(label: string, doneBytes: number, totalBytes: number | null): Meter;
  pages(label: string): PageMeter;
}

export function progressOn(stream: NodeJS.WriteStream, clock: Clock): Progress {
  const line = (text: string) => stream.write(`${text}\n`);
  const terminal = stream.isTTY === true;
  const start = terminal ? barMeter : lineMeter;
  return {
    terminal,
    line,
    start: (label, done, total) => start(stream, new Rate(clock, done, total), label),
    pages: (label) => (terminal ? pageBar(stream, label) : pageLines(stream, clock, label)),
  };
}

export const silentProgress: Progress = {
  terminal: false,
  line: () => undefined,
  start: () => ({ at: () => undefined, end: () => undefined }),
  pages: () => ({ at: () => undefined, end: () => undefined }),
};

/** Speed and remaining time of a transfer. */
export class Rate {
  readonly #startMs: number;
  done: number;

  constructor(
    readonly clock: Clock,
    readonly before: number,
    readonly total: number | null,
  ) {
    this.#startMs = clock.monotonicMs();
    this.done = before;
  }

  text(): string {
    const elapsedS = (this.clock.monotonicMs() - this.#startMs) / 1000;
    const rate = elapsedS > 0 ? (this.done - this.before) / elapsedS : 0;
    const size = this.total === null ? '' : ` of ${sizeText(this.total)}`;
    const leftS = this.total === null || rate === 0 ? null : (this.total - this.done) / rate;
    const left = leftS === null ? '' : `, ${durationText(leftS)} left`;
    return `${sizeText(this.done)}${size}, ${sizeText(rate)}/s${left}`;
  }

  percent(): number {
    return this.total === null ? 0 : Math.floor((100 * this.done) / this.total);
  }
}

function barMeter(stream: NodeJS.WriteStream, rate: Rate, label: string): Meter {
  const format = `${label} [{bar}] {percentage}% {text}`;
  const bar = new (library().SingleBar)({ ...BAR, format, stream });
  bar.start(rate.total ?? 0, rate.done, { text: rate.text() });
  return {
    at(doneBytes) {
      rate.done = doneBytes;
      bar.update(doneBytes, { text: rate.text() });
    },
    end: () => bar.stop(),
  };
}

/** A line every few seconds, none for a short transfer. */
function lineMeter(stream: NodeJS.WriteStream, rate: Rate, label: string): Meter {
  const show = () =>
    stream.write(`${label}: ${rate.total === null ? '' : `${rate.percent()} %, `}${rate.text()}\n`);
  let shownMs = rate.clock.monotonicMs();
  return {
    at(doneBytes) {
      rate.done = doneBytes;
      if (rate.clock.monotonicMs() - shownMs < limits.progressLineMs) return;
      shownMs = rate.clock.monotonicMs();
      show();
    },
    end: () => undefined,
  };
}

const BAR = { hideCursor: true, barsize: 24, linewrap: null } as const;

/** Shown from the beginning, since the first page may take a while. */
function pageBar(stream: NodeJS.WriteStream, label: string): PageMeter {
  let known: number | null = null;
  const format = (options: Options, { progress, value }: Params) => {
    if (known === null) return `${label} ${value === 0 ? 'opening' : `page ${value}`}`;
    const bar = library().Format.BarFormat(progress, options);
    return `${label} [${bar}] page ${value} of ${known}`;
  };
  const bar = new (library().SingleBar)({ ...BAR, format, stream });
  bar.start(1, 0);
  return {
    at(page, pages) {
      known = pages;
      bar.setTotal(pages ?? page + 1);
      bar.update(page);
    },
    end: () => bar.stop(),
  };
}

/** A line every few seconds, none for a short document. */
function pageLines(stream: NodeJS.WriteStream, clock: Clock, label: string): PageMeter {
  let shownMs = clock.monotonicMs();
  return {
    at(page, pages) {
      if (clock.monotonicMs() - shownMs < limits.progressLineMs) return;
      shownMs = clock.monotonicMs();
      stream.write(`${label}: page ${page}${pages === null ? '' : ` of ${pages}`}\n`);
    },
    end: () => undefined,
  };
}

const sizeUnits = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** In decimal units, as disks are sold. */
export function sizeText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < sizeUnits.length - 1; unit += 1) value /= 1000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${sizeUnits[unit]}`;
}

function durationText(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60
    ? `${minutes} min ${whole % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
