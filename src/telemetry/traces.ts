/**
 * Owns the traces of requests: spans made of their reports, sent to an OpenTelemetry collector as OTLP in JSON.
 * It must never hold a request up, nor put a text, a key or a user into a span.
 */
import type { Clock, NewBytes } from '../clock.js';
import { limits } from '../limits/index.js';
import { isOfUser, type Report, type RequestReport, routeText } from './report.js';
import { parentOf, type Span, spansOf } from './spans.js';

export interface TracesParts {
  /** Base address of the collector, without a slash at its end. */
  readonly endpoint: string;
  readonly version: string;
  readonly clock: Clock;
  readonly newBytes: NewBytes;
  readonly log: (line: string) => void;
}

interface Waiting {
  readonly report: RequestReport;
  readonly endMs: number;
}

export class Traces {
  readonly #parts: TracesParts;
  #waiting: Waiting[] = [];
  #sending: Promise<void> | null = null;
  #cancelTimer: (() => void) | null = null;
  #isDown = false;

  constructor(parts: TracesParts) {
    this.#parts = parts;
  }

  /** Keeps the report alone: spans are made of it when they are sent. */
  take(report: Report): void {
    if (!isOfUser(report) || this.#waiting.length >= limits.tracesWaitingMax) return;
    this.#waiting.push({ report, endMs: this.#parts.clock.nowMs() });
    this.#cancelTimer ??= this.#parts.clock.after(limits.tracesDelayMs, () => void this.#flush());
  }

  /** Sends what waits, once. */
  async close(): Promise<void> {
    await this.#sending;
    await this.#flush();
  }

  #flush(): Promise<void> {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    // What comes meanwhile waits: one request at a time.
    this.#sending ??= this.#send().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, limits.tracesBatchMax);
      const body = JSON.stringify(this.#exported(batch));
      const failure = await this.#post(body);
      this.#tell(failure);
      // Nothing is kept for a collector that may never come back.
      if (failure !== null) this.#waiting = [];
    }
  }

  /** @returns why it was not taken; null where it was. What was not taken is dropped. */
  async #post(body: string): Promise<string | null> {
    const control = new AbortController();
    const cancel = this.#parts.clock.after(limits.tracesMsMax, () => control.abort());
    try {
      const response = await fetch(`${this.#parts.endpoint}/v1/traces`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        signal: control.signal,
        redirect: 'error',
      });
      await response.body?.cancel();
      return response.ok ? null : `it answered ${response.status}`;
    } catch {
      return 'it cannot be reached';
    } finally {
      cancel();
    }
  }

  #tell(failure: string | null): void {
    if ((failure !== null) === this.#isDown) return;
    this.#isDown = failure !== null;
    const news =
      failure === null ? 'the collector takes spans again' : `spans are lost: ${failure}`;
    this.#parts.log(`traces: ${news}`);
  }

  #exported(batch: readonly Waiting[]) {
    const { version, newBytes } = this.#parts;
    const id = (bytes: number) => newBytes(bytes).toString('hex');
    const spans: Span[] = [];
    for (const { report, endMs } of batch) {
      const parent = parentOf(report.traceparent);
      if (parent?.isSampled === false) continue;
      spans.push(...spansOf({ report, endMs, parent, newId: id, name: routeText(report.route) }));
    }
    const service = { key: 'service.name', value: { stringValue: 'preface' } };
    const scopeSpans = [{ scope: { name: 'preface', version }, spans }];
    return { resourceSpans: [{ resource: { attributes: [service] }, scopeSpans }] };
  }
}
