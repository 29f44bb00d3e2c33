/**
 * Owns the reading of documents: who waits, whose turn it is, and the processes that read.
 * It must never let a document cost more than its own result, nor leave a file of one that failed.
 */
import { rm } from 'node:fs/promises';
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { FairQueue } from '../fairness/fair-queue.js';
import { OwnerLoad } from '../fairness/owner-load.js';
import { limits } from '../limits/index.js';
import type { ExtractionBounds, ExtractorOptions } from '../plugin/contract.js';
import type { TakeReport } from '../telemetry/report.js';
import type { ExtractProgress, ExtractResult } from './messages.js';
import type { PictureProgram } from './picture-run.js';
import { Reader } from './reader.js';
import type { ExtractTask } from './reading.js';
import type { Walls } from './walls.js';

export interface ExtractionRequest extends ExtractTask {
  readonly owner: string;
}

export interface ExtractionControl {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ExtractProgress) => void;
}

export interface Extraction {
  /** False where a document of this owner would be refused as `overloaded`. */
  hasRoom(owner: string): boolean;
  /**
   * Resolves when the target is written, or the document has shown to be unreadable; then there is no target.
   * @throws ApiError `overloaded` without room; the signal's reason; an Error for what is no fault of the document.
   */
  extract(request: ExtractionRequest, control?: ExtractionControl): Promise<ExtractResult>;
  /** Ends all reading at once; documents that wait or are read are rejected. */
  close(): Promise<void>;
}

export interface ExtractionOptions {
  /** Processes that read at the same time. */
  readonly processes: number;
  /** So many read while their documents are quick; the others read beside documents that take long. Absent: all. */
  readonly quickMax?: number;
  /** Modules of the extractor plugins; at equal claims the first one reads. */
  readonly extractors: readonly string[];
  readonly languages: readonly string[];
  /** Where their files are looked for first; the walls must let readers see it. */
  readonly languagesFolder?: string | null;
  /** Whether pictures in documents that have text are read too; absent: they are. */
  readonly pictures?: boolean;
  /** What the system holds readers back with. */
  readonly walls: Pick<Walls, 'command'>;
  /** What recognises text in pictures for them; absent or null: they do it themselves. */
  readonly pictureProgram?: PictureProgram | null;
  readonly clock: Clock;
  readonly log: (line: string) => void;
  /** Hears of each document that was read, and of readers that ended under one. */
  readonly report?: TakeReport;
  /** For who wants to reach a bound: a test. */
  readonly bounds?: Partial<PoolBounds>;
}

export interface PoolBounds {
  readonly msMax: number;
  readonly pageMsMax: number;
  readonly memoryBytesMax: number;
  readonly queueMax: number;
  readonly queueOwnerMax: number;
  readonly idleMs: number;
  /** A document that is read for this long leaves its place to one that may be quick. */
  readonly longMs: number;
  /** After its first document a reader stays with its owner's for this long: another owner's needs a new process. */
  readonly turnMs: number;
  readonly document: ExtractionBounds;
}

export const documentBounds: ExtractionBounds = {
  pagesMax: limits.extractionPagesMax,
  pixelsMax: limits.extractionPixelsMax,
  textLengthMax: limits.extractionTextLengthMax,
  unpackedBytesMax: limits.extractionUnpackedBytesMax,
  unpackRatioMax: limits.extractionUnpackRatioMax,
  archiveEntriesMax: limits.extractionEntriesMax,
  nestingMax: limits.extractionNestingMax,
};

const usualBounds: PoolBounds = {
  msMax: limits.extractionMsMax,
  pageMsMax: limits.extractionPageMsMax,
  memoryBytesMax: limits.extractionMemoryBytesMax,
  queueMax: limits.extractionQueueMax,
  queueOwnerMax: limits.extractionQueueOwnerMax,
  idleMs: limits.extractionIdleMs,
  longMs: limits.extractionLongMs,
  turnMs: limits.extractionTurnMs,
  document: documentBounds,
};

interface Job {
  readonly request: ExtractionRequest;
  readonly control: ExtractionControl;
  readonly resolve: (result: ExtractResult) => void;
  readonly reject: (cause: unknown) => void;
}

interface Taken {
  readonly job: Job;
  /** Whether it has been read for long before. */
  readonly isLong: boolean;
}

function taken(job: Job | undefined, isLong: boolean): Taken | null {
  return job === undefined ? null : { job, isLong };
}

export class ExtractionPool implements Extraction {
  readonly #spare: SpareReader;
  readonly #queue = new FairQueue<Job>();
  /** Documents that made way after they had been read for long. */
  readonly #long = new FairQueue<Job>();
  /** Documents of each owner that wait or are read. */
  readonly #load = new OwnerLoad();
  readonly #slots: ReaderSlot[];
  readonly #bounds: PoolBounds;
  readonly #report: TakeReport | undefined;
  readonly #clock: Clock;
  readonly #quickMax: number;
  #closed = false;

  constructor(options: ExtractionOptions) {
    this.#bounds = { ...usualBounds, ...options.bounds };
    this.#report = options.report;
    this.#clock = options.clock;
    this.#quickMax = options.quickMax ?? options.processes;
    this.#spare = new SpareReader(options, this.#bounds);
    this.#slots = Array.from(
      { length: options.processes },
      () => new ReaderSlot(options, this.#bounds, this.#spare),
    );
  }

  hasRoom(owner: string): boolean {
    const { queueMax, queueOwnerMax } = this.#bounds;
    return this.#load.total.count < queueMax && this.#load.of(owner).count < queueOwnerMax;
  }

  /** Documents that are read now, and those that wait. */
  get load(): { readonly reading: number; readonly waiting: number } {
    const reading = this.#slots.filter(({ job }) => job !== null).length;
    return { reading, waiting: this.#load.total.count - reading };
  }

  async extract(
    request: ExtractionRequest,
    control: ExtractionControl = {},
  ): Promise<ExtractResult> {
    if (this.#closed) throw new ApiError('unavailable', { error: 'the service is closing' });
    control.signal?.throwIfAborted();
    if (!this.hasRoom(request.owner)) {
      this.#report?.({ type: 'extraction', format: UNKNOWN, outcome: 'overloaded', durationMs: 0 });
      throw new ApiError('overloaded', {}, { retryAfterMs: 1000 });
    }
    this.#load.add(request.owner);
    try {
      return await this.#enqueue(request, control);
    } finally {
      this.#load.remove(request.owner);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const job of [...this.#queue.drain(), ...this.#long.drain()]) job.reject(CLOSED);
    await Promise.all([...this.#slots.map((slot) => slot.end(CLOSED)), this.#spare.end()]);
  }

  async #enqueue(request: ExtractionRequest, control: ExtractionControl): Promise<ExtractResult> {
    let onAbort = () => {};
    const result = new Promise<ExtractResult>((resolve, reject) => {
      const job: Job = { request, control, resolve, reject };
      onAbort = () => this.#abort(job);
      control.signal?.addEventListener('abort', onAbort, { once: true });
      this.#queue.push(request.owner, job);
    });
    this.#pump();
    return await result.finally(() => control.signal?.removeEventListener('abort', onAbort));
  }

  #pump(): void {
    for (;;) {
      const free = this.#slots.filter(({ job }) => job === null);
      const next = this.#closed || free.length === 0 ? null : this.#next(free);
      const slot = next && bestFor(next.job.request.owner, free);
      if (!next || !slot) break;
      this.#start(next.job, slot, next.isLong);
    }
    this.#makeWay();
  }

  /** Whose process is in its turn goes first, then who reads nothing; of the others no long document takes the last place. */
  #next(free: readonly ReaderSlot[]): Taken | null {
    const isFull = this.#quick() >= this.#quickMax;
    const leavesOne = this.#longCount() < this.#slots.length - 1;
    const inTurn = new Set(free.filter((slot) => slot.inTurn).map(({ owner }) => owner));
    // Each takes out of its queue what it gives: none may be asked before those that go first have nothing.
    const quick = (mayTake?: (owner: string) => boolean) =>
      taken(isFull ? undefined : this.#queue.shift(mayTake), false);
    const long = (mayTake?: (owner: string) => boolean) => taken(this.#long.shift(mayTake), true);
    return (
      quick((owner) => inTurn.has(owner)) ??
      (leavesOne ? long(this.#readsNothing) : null) ??
      quick(this.#readsNothing) ??
      long(this.#readsNothing) ??
      quick() ??
      (leavesOne ? long() : null)
    );
  }

  readonly #readsNothing = (owner: string): boolean =>
    this.#slots.every(({ job }) => job?.request.owner !== owner);

  /**
   * Where documents that take long have all places, somebody who reads nothing would wait for minutes: of the owner with the
   * most places the document that began last is put back, and begins anew when there is a place for it.
   */
  #makeWay(): void {
    const isAll = this.#slots.length > 1 && this.#longCount() === this.#slots.length;
    if (this.#closed || !isAll || this.#slots.some(({ isEnding }) => isEnding)) return;
    if (!this.#queue.hasAny(this.#readsNothing)) return;
    const places = (slot: ReaderSlot) =>
      this.#slots.filter(({ job }) => job?.request.owner === slot.job?.request.owner).length;
    const [newest] = [...this.#slots].sort(
      (a, b) => places(b) - places(a) || b.beganMs - a.beganMs,
    );
    void newest?.end(PUT_BACK);
  }

  /** Documents that have not been read for long. */
  #quick(): number {
    return this.#slots.filter(({ job, isLong }) => job !== null && !isLong).length;
  }

  #longCount(): number {
    return this.#slots.filter(({ job, isLong }) => job !== null && isLong).length;
  }

  #start(job: Job, slot: ReaderSlot, isLong: boolean): void {
    slot.isLong = isLong;
    // Its timer alone says that a document takes long: a timer may fire before a clock has seen all of its time.
    const cancel = this.#clock.after(this.#bounds.longMs, () => {
      slot.isLong = true;
      this.#pump();
    });
    void slot.run(job).then((end) => {
      cancel();
      if (end === 'put back') this.#putBack(job);
      this.#pump();
    });
  }

  #putBack(job: Job): void {
    const { signal } = job.control;
    if (this.#closed) job.reject(CLOSED);
    else if (signal?.aborted) job.reject(signal.reason);
    else this.#long.push(job.request.owner, job);
  }

  #abort(job: Job): void {
    const reason: unknown = job.control.signal?.reason;
    const { owner } = job.request;
    if (this.#queue.remove(owner, job) || this.#long.remove(owner, job)) job.reject(reason);
    void this.#slots.find((slot) => slot.job === job)?.end(reason);
  }
}

const UNKNOWN = 'unknown';
/** In place of the reason why a document is not wanted: it is, later. */
const PUT_BACK = Symbol('put back');

/** As the extractor says: never what an uploader wrote. */
function formatOf(outcome: ExtractResult | { readonly cause: unknown }): string | null {
  if ('cause' in outcome) return null;
  return outcome.type === 'extracted' ? outcome.document.fileType : outcome.fileType;
}

const CLOSED = new ApiError('unavailable', { error: 'the service is closing' });

/** One whose process knows the owner already, or nobody: another one would have to be started anew. */
function bestFor(owner: string, free: readonly ReaderSlot[]): ReaderSlot | undefined {
  const known = free.find((slot) => slot.owner === owner);
  return known ?? free.find((slot) => slot.owner === null) ?? free.at(0);
}

/** A process that has met no document, for when the owner changes: its start is then over already. */
class SpareReader {
  #reader: Reader | null = null;
  #cancelIdle = () => {};

  constructor(
    readonly options: ExtractionOptions,
    readonly bounds: PoolBounds,
  ) {}

  /** @throws Error where the system has no process to give. */
  take(): Reader {
    const reader = this.#reader?.usable === true ? this.#reader : null;
    this.#cancelIdle();
    this.#reader = null;
    return reader ?? startReader(this.options, this.bounds);
  }

  /** The next change of owner need not wait for a start. */
  prepare(): void {
    this.#cancelIdle();
    try {
      if (this.#reader?.usable !== true) this.#reader = startReader(this.options, this.bounds);
    } catch {
      // Who takes one tries again, and is told.
    }
    this.#cancelIdle = this.options.clock.after(this.bounds.idleMs, () => void this.end());
  }

  async end(): Promise<void> {
    this.#cancelIdle();
    const reader = this.#reader;
    this.#reader = null;
    reader?.end('it was idle');
    await reader?.ended;
  }
}

/**
 * Reads one document at a time. Its process starts when it is needed, and reads for one owner: what a document leaves
 * behind in it must not meet another owner's.
 */
class ReaderSlot {
  job: Job | null = null;
  /** Whose documents the process has met; null: nobody's. */
  owner: string | null = null;
  /** Whether the document that is read takes long. */
  isLong = false;
  beganMs = 0;
  #reader: Reader | null = null;
  /** A moment of the monotonic clock; null until the owner's first document is read. */
  #turnEndsMs: number | null = null;
  /** Set while the document is not wanted any more: what is thrown instead of its result. */
  #unwanted: { readonly reason: unknown } | null = null;
  #cancelIdle = () => {};

  constructor(
    readonly options: ExtractionOptions,
    readonly bounds: PoolBounds,
    readonly spare: SpareReader,
  ) {}

  /** Whether its process may go on with its owner's documents before others'. */
  get inTurn(): boolean {
    if (this.owner === null || this.#turnEndsMs === null) return false;
    return this.#reader?.usable === true && this.options.clock.monotonicMs() < this.#turnEndsMs;
  }

  /** Its document is not read on; its place is not free yet. */
  get isEnding(): boolean {
    return this.#unwanted !== null;
  }

  /** Settles the job, unless it is put back; never rejects. */
  async run(job: Job): Promise<'settled' | 'put back'> {
    this.job = job;
    this.#cancelIdle();
    const { clock } = this.options;
    this.beganMs = clock.monotonicMs();
    const outcome = await this.#outcome(job).catch((cause: unknown) => ({ cause }));
    const unwanted = this.#unwanted;
    if (unwanted === null) this.#told(outcome, clock.monotonicMs() - this.beganMs);
    const failed = unwanted !== null || 'cause' in outcome || outcome.type === 'refused';
    if (failed) await this.#clear(job);
    if (unwanted === null && this.#reader?.usable === false) this.#replace();
    this.#turnEndsMs ??= clock.monotonicMs() + this.bounds.turnMs;
    this.job = null;
    this.#unwanted = null;
    this.#cancelIdle = this.options.clock.after(this.bounds.idleMs, () => this.#retire());
    if (unwanted?.reason === PUT_BACK) return 'put back';
    if (unwanted !== null) job.reject(unwanted.reason);
    else if ('cause' in outcome) job.reject(outcome.cause);
    else job.resolve(outcome);
    return 'settled';
  }

  /** Ends the process, and what it reads with it. */
  async end(reason: unknown): Promise<void> {
    // Who is not wanted at all is not put back.
    if (this.job !== null && (this.#unwanted === null || this.#unwanted.reason === PUT_BACK))
      this.#unwanted = { reason };
    this.#cancelIdle();
    this.#reader?.end('it is not wanted any more');
    await this.#reader?.ended;
  }

  async #outcome({ request, control }: Job): Promise<ExtractResult> {
    const reader = this.#readerFor(request.owner);
    return await reader.read(request, (progress) => control.onProgress?.(progress));
  }

  #readerFor(owner: string): Reader {
    const present = this.#reader;
    if (this.owner !== owner) this.#turnEndsMs = null;
    if (present?.usable === true && (this.owner === null || this.owner === owner)) {
      this.owner = owner;
      return present;
    }
    present?.end('it read for another user');
    this.#reader = this.spare.take();
    if (this.owner !== null && this.owner !== owner) this.spare.prepare();
    this.owner = owner;
    return this.#reader;
  }

  #told(outcome: ExtractResult | { readonly cause: unknown }, durationMs: number): void {
    const { report } = this.options;
    const reader = this.#reader;
    if (reader?.usable === false) {
      const reason = reader.reason ?? 'unknown';
      report?.({ type: 'worker-ended', worker: 'extraction', reason });
    }
    const type = 'cause' in outcome ? 'broken' : outcome.type;
    report?.({
      type: 'extraction',
      format: formatOf(outcome) ?? UNKNOWN,
      outcome: type === 'extracted' ? 'ok' : type === 'refused' ? 'failed' : 'broken',
      durationMs,
    });
  }

  /** A process that is being killed may still write: its files are removed after its end. */
  async #clear({ request }: Job): Promise<void> {
    if (this.#reader?.usable === false) await this.#reader.ended;
    for (const path of [request.target, request.notesTarget ?? request.target]) {
      await rm(path, { force: true }).catch((cause: unknown) => {
        this.options.log(`extraction: ${cause instanceof Error ? cause.message : cause}`);
      });
    }
  }

  /** The next document need not wait for the start of another process. */
  #replace(): void {
    this.owner = null;
    try {
      this.#reader = this.spare.take();
    } catch {
      // The next document tries again, and is told.
    }
  }

  #retire(): void {
    this.#reader?.end('it was idle');
    this.#reader = null;
    this.owner = null;
  }
}

function startReader(
  { clock, log, languages, languagesFolder, pictures = true, walls, ...rest }: ExtractionOptions,
  { memoryBytesMax, msMax, pageMsMax, document }: PoolBounds,
): Reader {
  const options: ExtractorOptions = {
    bounds: document,
    languages,
    ...(languagesFolder && { languagesFolder }),
    pictures,
  };
  const extractors = rest.extractors.map((module) => ({ module, options }));
  return new Reader({
    start: { extractors, memoryBytesMax },
    pictures: rest.pictureProgram ?? null,
    walls,
    bounds: document,
    clock,
    startMsMax: limits.extractionStartMsMax,
    readMsMax: msMax,
    pageMsMax,
    memoryKeptBytesMax: limits.extractionMemoryKeptBytesMax,
    log,
  });
}
