/**
 * Owns the sending of a soak: calls fall due at a fixed rate, whether or not earlier ones are answered.
 * It must never let running calls grow without bound: calls that fall due beyond it are skipped and counted.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import type { SoakCall } from './soak-calls.js';

export interface CallFigures {
  answered: number;
  /** Calls that got a 429. */
  refused: number;
  readonly ms: number[];
}

export interface LoadFigures {
  /** These are of the time behind the warm-up. */
  readonly sent: number;
  /** Calls that fell due while the bound was reached. */
  readonly leftOut: number;
  readonly seconds: number;
  readonly calls: ReadonlyMap<string, CallFigures>;
  /** Descriptions of the first faults. */
  readonly faults: readonly string[];
  readonly faultCount: number;
}

const UNDER_WAY_MAX = 256;
const TICK_MS = 5;
const ANSWER_MS_MAX = 60_000;
const FAULTS_KEPT = 20;
const FAULT_LENGTH_SHOWN = 300;

export interface SoakLoadOptions {
  readonly port: number;
  readonly ratePerS: number;
  readonly seconds: number;
  /** Times of answers before this are not counted. */
  readonly warmUpS: number;
  /** The rate until then: heaps have their size, and bounded memories are full, after some 100 000 requests. */
  readonly warmRatePerS: number;
  readonly next: () => SoakCall;
}

export class SoakLoad {
  readonly #pool: Pool;
  readonly #calls = new Map<string, CallFigures>();
  readonly #faults: string[] = [];
  readonly #underWay = new Set<Promise<void>>();
  #faultCount = 0;
  #sent = 0;
  #leftOut = 0;

  constructor(readonly options: SoakLoadOptions) {
    this.#pool = new Pool(`http://127.0.0.1:${options.port}`, {
      connections: UNDER_WAY_MAX,
      headersTimeout: ANSWER_MS_MAX,
      bodyTimeout: ANSWER_MS_MAX,
    });
  }

  async run(): Promise<LoadFigures> {
    const { ratePerS, seconds, warmUpS, warmRatePerS } = this.options;
    const startMs = performance.now();
    const endMs = startMs + seconds * 1_000;
    const warmCount = Math.floor(warmUpS * warmRatePerS);
    const dueAt = (number: number) =>
      number < warmCount
        ? startMs + (number * 1_000) / warmRatePerS
        : startMs + warmUpS * 1_000 + ((number - warmCount) * 1_000) / ratePerS;
    for (let number = 0; performance.now() < endMs; ) {
      for (; dueAt(number) <= performance.now(); number += 1) this.#send(dueAt(number), startMs);
      await delay(TICK_MS);
    }
    await Promise.all(this.#underWay);
    await this.#pool.close();
    return {
      sent: this.#sent,
      leftOut: this.#leftOut,
      seconds: seconds - warmUpS,
      calls: this.#calls,
      faults: this.#faults,
      faultCount: this.#faultCount,
    };
  }

  #send(dueMs: number, startMs: number): void {
    const warm = dueMs - startMs >= this.options.warmUpS * 1_000;
    if (this.#underWay.size >= UNDER_WAY_MAX) {
      if (warm) this.#leftOut += 1;
      return;
    }
    if (warm) this.#sent += 1;
    const call = this.options.next();
    const answered = this.#answer(call, dueMs, warm)
      .catch((cause: unknown) => this.#fault(call, String(cause)))
      .finally(() => {
        call.over();
        this.#underWay.delete(answered);
      });
    this.#underWay.add(answered);
  }

  async #answer(call: SoakCall, dueMs: number, warm: boolean): Promise<void> {
    const { method, path, headers, body } = call;
    const answer = await this.#pool.request({ method, path, headers, body });
    const text = await answer.body.text();
    const figures = this.#figures(call.name);
    figures.answered += 1;
    // Measured from the due time, so that a late client hides no delay.
    if (warm) figures.ms.push(performance.now() - dueMs);
    if (answer.statusCode === 429 && call.status !== 401) figures.refused += 1;
    else if (answer.statusCode !== call.status) this.#fault(call, `${answer.statusCode} ${text}`);
    else {
      const fault = call.fault(text);
      if (fault === null) call.kept(text);
      else this.#fault(call, `${fault}: ${text}`);
    }
  }

  #figures(name: string): CallFigures {
    const found = this.#calls.get(name) ?? { answered: 0, refused: 0, ms: [] };
    this.#calls.set(name, found);
    return found;
  }

  #fault(call: SoakCall, text: string): void {
    this.#faultCount += 1;
    if (this.#faults.length >= FAULTS_KEPT) return;
    this.#faults.push(`${call.name}: ${text.slice(0, FAULT_LENGTH_SHOWN)}`);
  }
}
