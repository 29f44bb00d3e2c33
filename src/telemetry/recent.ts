/**
 * Owns the newest requests and log lines of the running service, in memory.
 * It must never hold more than its bounds, nor the text of a message: it takes nothing but reports and lines of the log.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import {
  isOfUser,
  type LogLevel,
  levelOf,
  type Report,
  type RequestReport,
  reportText,
} from './report.js';

export interface RecentRequest {
  /** Counts from the start of the service. */
  readonly sequence: number;
  readonly endedMs: number;
  readonly report: RequestReport;
}

export interface RecentLine {
  readonly sequence: number;
  readonly atMs: number;
  readonly level: LogLevel;
  readonly text: string;
}

export class Recent {
  readonly #requests = new Newest<RecentRequest>(limits.recentRequestsMax);
  readonly #lines = new Newest<RecentLine>(limits.recentLinesMax);

  constructor(readonly clock: Clock) {}

  take(report: Report): void {
    if (isOfUser(report)) {
      this.#requests.add({
        sequence: this.#requests.taken,
        endedMs: this.clock.nowMs(),
        report,
      });
    }
    const level = levelOf(report);
    // Requests that went well stand in their own list.
    if (report.type !== 'request' || level !== 'info') this.#write(level, reportText(report));
  }

  line(text: string): void {
    this.#write('info', text);
  }

  /** The newest first. */
  requests(): RecentRequest[] {
    return this.#requests.list();
  }

  /** The newest first. */
  lines(): RecentLine[] {
    return this.#lines.list();
  }

  #write(level: LogLevel, text: string): void {
    const { recentLineLengthMax } = limits;
    const shown =
      text.length > recentLineLengthMax ? `${text.slice(0, recentLineLengthMax)}…` : text;
    this.#lines.add({
      sequence: this.#lines.taken,
      atMs: this.clock.nowMs(),
      level,
      text: shown,
    });
  }
}

class Newest<Item> {
  readonly #items: Item[] = [];
  taken = 0;

  constructor(readonly max: number) {}

  add(item: Item): void {
    this.#items[this.taken % this.max] = item;
    this.taken += 1;
  }

  list(): Item[] {
    const next = this.taken % this.max;
    const oldestFirst =
      this.taken < this.max
        ? this.#items
        : [...this.#items.slice(next), ...this.#items.slice(0, next)];
    return [...oldestFirst].reverse();
  }
}
