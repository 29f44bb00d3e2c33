/**
 * Owns the way from a file's bytes to its text: one reading for equal bytes of an owner, tried until there is a verdict.
 * It must never write a record, nor call a text extracted that a power cut could take.
 */
import type { Clock } from '../clock.js';
import { decodeRecord } from '../codec.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Extraction } from '../pool/extraction.js';
import type { FileMessage, FileRecord } from '../rules/file-state.js';
import type { Blobs } from '../store/blobs.js';
import type { Store } from '../store/store.js';
import { fileIdOf, fileKeys, sourceBlob, textBlob } from './records.js';

export interface ExtractionsParts {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly extraction: Pick<Extraction, 'extract' | 'hasRoom'>;
  readonly clock: Clock;
  readonly report: (fault: unknown) => void;
}

interface Run {
  readonly control: AbortController;
  /** Settles when nothing of the file is touched any more. */
  readonly over: Promise<void>;
}

interface Reading {
  readonly id: string;
  /** What it came to, for those who wait for the same bytes; null: no verdict. */
  readonly ended: Promise<FileMessage | null>;
}

export class Extractions {
  readonly #parts: ExtractionsParts;
  /** By the file's id. */
  readonly #runs = new Map<string, Run>();
  /** By owner and sample of the content: the first of those that are alike. */
  readonly #readings = new Map<string, Reading>();
  /** Settles when nothing is compared. */
  #comparing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: ExtractionsParts) {
    this.#parts = parts;
  }

  /** @returns what it means to the file; null when nobody wants to know any more. */
  async run(record: FileRecord): Promise<FileMessage | null> {
    const { id } = record;
    if (this.#closed || this.#runs.has(id)) return null;
    const control = new AbortController();
    const outcome = this.#outcome(record, control.signal);
    const over = outcome.then(nothing, nothing);
    this.#runs.set(id, { control, over });
    try {
      return await outcome;
    } catch (cause) {
      if (control.signal.aborted) return null;
      throw cause;
    } finally {
      this.#runs.delete(id);
    }
  }

  /** Resolves when nothing of the file is written any more. */
  async abort(id: string): Promise<void> {
    const run = this.#runs.get(id);
    run?.control.abort(new Error('the file is gone'));
    await run?.over;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#runs.keys()].map((id) => this.abort(id)));
  }

  /** Waits for a reading of the same bytes that goes on, or is the one itself. */
  async #outcome(record: FileRecord, signal: AbortSignal): Promise<FileMessage> {
    const content = JSON.stringify(fileKeys.content(record));
    for (;;) {
      signal.throwIfAborted();
      const reading = this.#readings.get(content);
      if (reading === undefined) return await this.#lead(content, record, signal);
      if (!(await this.#same(reading.id, record, signal))) {
        return await this.#verdict(record, signal);
      }
      const message = await unlessAborted(reading.ended, signal);
      const same = message && (await this.#taken(reading.id, record.id, message));
      if (same) return same;
    }
  }

  #lead(content: string, record: FileRecord, signal: AbortSignal): Promise<FileMessage> {
    const verdict = this.#verdict(record, signal);
    const ended = verdict.catch(() => null).finally(() => this.#readings.delete(content));
    this.#readings.set(content, { id: record.id, ended });
    return verdict;
  }

  async #verdict(record: FileRecord, signal: AbortSignal): Promise<FileMessage> {
    let delayMs: number = limits.extractionRetryMs;
    let broken = 0;
    for (;;) {
      try {
        return (await this.#earlier(record, signal)) ?? (await this.#read(record, signal));
      } catch (cause) {
        signal.throwIfAborted();
        if (!passes(cause)) {
          this.#parts.report(cause);
          broken += 1;
        }
        if (broken === limits.extractionAttemptsMax) return BROKEN;
      }
      await this.#wait(delayMs, signal);
      delayMs = Math.min(2 * delayMs, limits.extractionRetryMsMax);
    }
  }

  async #read({ id, owner, filename }: FileRecord, signal: AbortSignal): Promise<FileMessage> {
    const { blobs, extraction } = this.#parts;
    const text = textBlob(id);
    // An earlier life may have left some of it.
    await blobs.remove(text);
    const source = blobs.path(sourceBlob(id));
    const target = blobs.partPath(text);
    const result = await extraction.extract({ owner, source, filename, target }, { signal });
    if (result.type === 'refused') return result;
    await blobs.adopt(text);
    return result;
  }

  /** The text of an earlier file with the same bytes. A refusal is not taken over: it may have been bad luck. */
  async #earlier(record: FileRecord, signal: AbortSignal): Promise<FileMessage | null> {
    const { store } = this.#parts;
    const prefix = fileKeys.content(record);
    for (const entry of store.page({ prefix, limit: limits.contentComparedMax })) {
      const message = await this.#from(fileIdOf(entry), record, signal);
      if (message !== null) return message;
    }
    return null;
  }

  async #from(id: string, record: FileRecord, signal: AbortSignal): Promise<FileMessage | null> {
    const stored = this.#parts.store.get(fileKeys.record(id));
    if (stored === null) return null;
    const { progress, bytes } = decodeRecord<FileRecord>(stored.value);
    if (progress.status !== 'ok' || bytes !== record.bytes) return null;
    if (!(await this.#same(id, record, signal))) return null;
    return await this.#taken(id, record.id, { type: 'extracted', document: progress.document });
  }

  /** One comparison at a time: it holds two files and their buffers. What cannot be compared is read for itself. */
  async #same(id: string, record: FileRecord, signal: AbortSignal): Promise<boolean> {
    const { blobs, report } = this.#parts;
    const turn = this.#comparing.then(() =>
      blobs.same(sourceBlob(id), sourceBlob(record.id), signal),
    );
    this.#comparing = turn.then(nothing, nothing);
    try {
      return await turn;
    } catch (cause) {
      signal.throwIfAborted();
      report(cause);
      return false;
    }
  }

  /** null: the text has gone with its file, or cannot be shared here; then it is read again. */
  async #taken(from: string, to: string, message: FileMessage): Promise<FileMessage | null> {
    if (message.type !== 'extracted') return message;
    try {
      return (await this.#parts.blobs.share(textBlob(from), textBlob(to))) ? message : null;
    } catch (cause) {
      this.#parts.report(cause);
      return null;
    }
  }

  async #wait(delayMs: number, signal: AbortSignal): Promise<void> {
    let cancel = nothing;
    const over = new Promise<void>((resolve) => {
      cancel = this.#parts.clock.after(delayMs, resolve);
    });
    await unlessAborted(over, signal).finally(() => cancel());
  }
}

const BROKEN: FileMessage = {
  type: 'refused',
  reason: `its reader broke ${limits.extractionAttemptsMax} times`,
};

/** No room and no disk say nothing about the document, however often. */
function passes(cause: unknown): boolean {
  return cause instanceof ApiError && (cause.row === 'overloaded' || cause.row === 'unavailable');
}

function unlessAborted<Value>(awaited: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    // One that has come already is told to nobody who begins to listen.
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    awaited.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function nothing(): void {}
