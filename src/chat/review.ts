/**
 * Owns content review: the verdict of all filters on a text, and what holds when a filter gives none.
 * It must never let a text pass that a filter rejected, nor wait for one longer than its bound.
 */
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Talk } from '../parsing/talk.js';
import type {
  Filter,
  FilterStep,
  FilterStream,
  FilterText,
  FilterVerdict,
} from '../plugin/contract.js';
import type { CacheError } from '../protocol/caching.js';

export interface NamedFilter {
  readonly name: string;
  readonly filter: Filter;
}

export interface ReviewParts {
  /** Each filter has to allow a text. */
  readonly filters: readonly NamedFilter[];
  readonly clock: Clock;
  /** Milliseconds for one verdict of one filter. */
  readonly waitMs: number;
  /** What holds when a filter fails: `closed` refuses, `open` lets pass. */
  readonly failure: 'closed' | 'open';
  /** For the operator; without a word of the text. */
  readonly report: (line: string) => void;
}

/** The value itself where nothing has to be awaited. */
export type MaybePromise<Value> = Value | Promise<Value>;

type Ask<Value> = (signal: AbortSignal) => MaybePromise<Value>;

export class Review {
  constructor(readonly parts: ReviewParts) {}

  /** @throws ApiError `contentFilter`, or `unavailable` when a filter gave no verdict. */
  async check(texts: readonly FilterText[]): Promise<void> {
    if (texts.length === 0) return;
    for (const { name, filter } of this.parts.filters) {
      const verdict = await this.ask(name, (signal) => filter.check(texts, signal));
      if (verdict?.type === 'rejected') throw this.rejected(name, verdict.rule);
    }
  }

  /** @param before the beginning of the answer that the client wrote. */
  open(before: string): ReviewedText {
    return new ReviewedText(this, before);
  }

  rejected(name: string, rule: string): ApiError {
    this.parts.report(`filter ${name} rejected a text: ${rule}`);
    return new ApiError('contentFilter');
  }

  /** @returns null when the filter failed and a failure lets the text pass. */
  ask<Value extends FilterStep | FilterVerdict>(
    name: string,
    ask: Ask<Value>,
  ): MaybePromise<Value | null> {
    const abort = new AbortController();
    try {
      const answer = ask(abort.signal);
      if (!(answer instanceof Promise)) return answer;
      return this.#bounded(answer, abort).catch((cause: unknown) => this.#failed(name, cause));
    } catch (cause) {
      return this.#failed(name, cause);
    }
  }

  async #bounded<Value>(answer: Promise<Value>, abort: AbortController): Promise<Value> {
    const { clock, waitMs } = this.parts;
    let cancel = () => {};
    const late = new Promise<never>((_resolve, reject) => {
      cancel = clock.after(waitMs, () => reject(new Error(`no answer in ${waitMs} ms`)));
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      cancel();
      abort.abort();
    }
  }

  #failed(name: string, cause: unknown): null {
    const { failure, report } = this.parts;
    report(`filter ${name} failed: ${cause instanceof Error ? cause.message : String(cause)}`);
    if (failure === 'open') return null;
    const extra = { retryAfterMs: limits.filterRetryMs };
    throw new ApiError('unavailable', { error: 'content review gave no verdict' }, extra);
  }
}

/** The error of a cache: a rejected text is its fault, a filter without a verdict is not. */
export function cacheReview(review: Review) {
  return async (talk: Talk): Promise<CacheError | null> => {
    try {
      await review.check(await talk.texts());
      return null;
    } catch (cause) {
      if (!(cause instanceof ApiError) || cause.row !== 'contentFilter') throw cause;
      return { type: cause.type, message: cause.message };
    }
  };
}

interface Reader {
  readonly name: string;
  readonly stream: FilterStream;
  /** UTF-16 units that this filter lets be shown. */
  length: number;
  /** The filter failed, and a failure lets the text pass. */
  failed: boolean;
}

/** One generated text, held back as far as any filter wants it. */
export class ReviewedText {
  readonly #review: Review;
  readonly #readers: readonly Reader[];
  #held = '';
  #length = 0;
  #shown = 0;
  #ended = false;

  constructor(review: Review, before: string) {
    this.#review = review;
    this.#readers = review.parts.filters.map(({ name, filter }) => {
      return { name, stream: filter.open(before), length: 0, failed: false };
    });
  }

  /** UTF-16 units given and shown so far. */
  get length(): number {
    return this.#length;
  }

  get shown(): number {
    return this.#shown;
  }

  /** @returns what may be shown now. @throws ApiError, or rejects with it. */
  push(text: string): MaybePromise<string> {
    if (text === '') return '';
    this.#held += text;
    this.#length += text.length;
    return this.#all((reader) => {
      const step = this.#review.ask(reader.name, () => reader.stream.push(text));
      return step instanceof Promise
        ? step.then((said) => this.#noteStep(reader, said))
        : this.#noteStep(reader, step);
    });
  }

  /** @returns the rest, the first time. */
  end(): MaybePromise<string> {
    if (this.#ended) return '';
    this.#ended = true;
    return this.#all((reader) => {
      const verdict = this.#review.ask(reader.name, () => reader.stream.end());
      return verdict instanceof Promise
        ? verdict.then((said) => this.#noteEnd(reader, said))
        : this.#noteEnd(reader, verdict);
    });
  }

  #all(ask: (reader: Reader) => MaybePromise<void>): MaybePromise<string> {
    const waits: Promise<void>[] = [];
    for (const reader of this.#readers) {
      if (reader.failed) continue;
      const wait = ask(reader);
      if (!(wait instanceof Promise)) continue;
      waits.push(wait);
      // Another filter may reject before this promise is awaited.
      wait.catch(() => {});
    }
    if (waits.length === 0) return this.#take();
    return Promise.all(waits).then(() => this.#take());
  }

  #noteStep(reader: Reader, step: FilterStep | null): void {
    if (step === null) reader.failed = true;
    else if (step.type === 'rejected') throw this.#review.rejected(reader.name, step.rule);
    else reader.length = Math.max(reader.length, Math.min(step.length, this.#length));
  }

  #noteEnd(reader: Reader, verdict: FilterVerdict | null): void {
    if (verdict?.type === 'rejected') throw this.#review.rejected(reader.name, verdict.rule);
    if (verdict === null) reader.failed = true;
    reader.length = this.#length;
  }

  #take(): string {
    const lengths = this.#readers.map(({ failed, length }) => (failed ? this.#length : length));
    const end = this.#whole(Math.min(this.#length, ...lengths));
    const text = this.#held.slice(0, end - this.#shown);
    this.#held = this.#held.slice(text.length);
    this.#shown = end;
    return text;
  }

  /** Never half a character, whatever a filter says. */
  #whole(end: number): number {
    const last = this.#held.charCodeAt(end - this.#shown - 1);
    const isHalf = end > this.#shown && end < this.#length && last >= 0xd800 && last < 0xdc00;
    return isHalf ? end - 1 : end;
  }
}
