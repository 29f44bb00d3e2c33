/**
 * Owns the way from a file's bytes to its text: equal bytes of an owner are read once, with retries until there is a result.
 * It must never write a record, nor report a text as extracted before it is safe from a power cut.
 */
import { rm } from 'node:fs/promises';
import { type Clock, pause } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Extraction } from '../pool/extraction.js';
import {
  documentBytes,
  type FileDocument,
  type FileMessage,
  type FileRecord,
  type FileState,
} from '../rules/file-state.js';
import type { Blobs } from '../store/blobs.js';
import type { Store } from '../store/store.js';
import {
  damagedNotes,
  fileIdOf,
  fileKeys,
  notesBlob,
  readBlobs,
  sourceBlob,
  textBlob,
} from './records.js';
import type { TextRoom } from './text-room.js';

export interface ExtractionsParts {
  readonly store: Pick<Store, 'page' | 'commit'>;
  /** null also for one that is damaged. */
  readonly read: (id: string) => FileState;
  readonly blobs: Blobs;
  readonly extraction: Pick<Extraction, 'extract' | 'hasRoom'>;
  readonly room: TextRoom;
  readonly clock: Clock;
  readonly report: (fault: unknown) => void;
}

interface Run {
  readonly control: AbortController;
  /** Settles when no step touches the file any more. */
  readonly over: Promise<void>;
}

type Verdict = Extract<FileMessage, { readonly type: 'extracted' | 'refused' }>;

interface Reading {
  readonly id: string;
  /** The result, for files with the same bytes that wait for it; null without a result. */
  readonly ended: Promise<FileMessage | null>;
}

export class Extractions {
  readonly #parts: ExtractionsParts;
  /** Runs by the id of their file. */
  readonly #runs = new Map<string, Run>();
  /** The first run for each owner and content sample. */
  readonly #readings = new Map<string, Reading>();
  /** Settles when no comparison is running. */
  #comparing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: ExtractionsParts) {
    this.#parts = parts;
  }

  /** @returns the message for the file's actor; null when the file is gone. */
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

  /** Stops the run of the file. Resolves when no step writes any more. */
  async abort(id: string): Promise<void> {
    const run = this.#runs.get(id);
    run?.control.abort(new Error('the file is gone'));
    await run?.over;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#runs.keys()].map((id) => this.abort(id)));
  }

  /** Waits for a running extraction of the same bytes; without one, runs it. */
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
      const same = message && (await this.#taken(reading.id, record, message));
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
      await pause(this.#parts.clock, delayMs, signal);
      delayMs = Math.min(2 * delayMs, limits.extractionRetryMsMax);
    }
  }

  async #read(record: FileRecord, signal: AbortSignal): Promise<FileMessage> {
    const { id, owner, filename } = record;
    const { blobs, extraction, room } = this.#parts;
    const text = textBlob(id);
    // An earlier attempt, or an earlier run of the service, may have left a part of it.
    room.giveBack(id);
    for (const name of readBlobs(id)) await rm(blobs.partPath(name), { force: true });
    const source = () => blobs.read(sourceBlob(id));
    const [target, notesTarget] = [blobs.partPath(text), blobs.partPath(notesBlob(id))];
    const { withRoom } = blobs;
    const bounds = { text: await room.bound(record), withRoom };
    const request = { owner, source, crc32: record.crc32, filename, target, notesTarget };
    const result = await extraction.extract({ ...request, ...bounds }, { signal });
    if (result.type === 'refused') {
      await this.#forget(id);
      return result;
    }
    const document = await this.#withRoom(record, result.document);
    if (document.type === 'refused') {
      await this.#forget(id);
      return document;
    }
    // Before and not after: while this process was stopped, another node may have read the file.
    await this.#assertMayWrite();
    if (document.document.notes !== undefined) await blobs.adopt(notesBlob(id));
    else await blobs.remove(notesBlob(id));
    await blobs.adopt(text);
    return document;
  }

  /** A text that fits alone is kept alone. */
  async #withRoom(record: FileRecord, document: FileDocument): Promise<Verdict> {
    const { room } = this.#parts;
    const whole = await room.take(record, documentBytes(document));
    if (whole === null) return { type: 'extracted', document };
    const { notes, ...bare } = document;
    const refused = notes === undefined ? whole : await room.take(record, bare.bytes);
    return refused ?? { type: 'extracted', document: bare };
  }

  async #forget(id: string): Promise<void> {
    await this.#assertMayWrite();
    for (const name of readBlobs(id)) await this.#parts.blobs.remove(name);
  }

  /** Another node may have read the file since this one lost the right to write: its text is not ours. @throws ApiError `unavailable`. */
  async #assertMayWrite(): Promise<void> {
    await this.#parts.store.commit([{ type: 'remove', key: NOTHING, expected: null }]);
  }

  /** Reuses the text of an earlier file with the same bytes. A failure is not reused: a retry may succeed. */
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
    const earlier = this.#parts.read(id);
    if (earlier === null) return null;
    const { progress, bytes } = earlier;
    if (progress.status !== 'ok' || bytes !== record.bytes) return null;
    if (!(await this.#same(id, record, signal))) return null;
    return await this.#taken(id, record, { type: 'extracted', document: progress.document });
  }

  /** One comparison at a time: it holds two files and their buffers. Files that cannot be compared are read separately. */
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
  async #taken(from: string, to: FileRecord, message: FileMessage): Promise<FileMessage | null> {
    const { blobs } = this.#parts;
    if (message.type !== 'extracted') return message;
    try {
      // One that is damaged is not handed on.
      if ((await blobs.state(textBlob(from), message.document)) !== 'whole') return null;
      const taken = await this.#withRoom(to, await this.#withWholeNotes(from, message.document));
      if (taken.type === 'refused') return taken;
      const hasNotes = taken.document.notes !== undefined;
      if (hasNotes && !(await blobs.share(notesBlob(from), notesBlob(to.id)))) return null;
      return (await blobs.share(textBlob(from), textBlob(to.id))) ? taken : null;
    } catch (cause) {
      this.#parts.report(cause);
      return null;
    }
  }

  /** A text that is whole stays, whatever became of its notes. */
  async #withWholeNotes(id: string, document: FileDocument): Promise<FileDocument> {
    const { blobs, report } = this.#parts;
    const { notes, ...bare } = document;
    if (notes === undefined || (await blobs.state(notesBlob(id), notes)) === 'whole')
      return document;
    report(damagedNotes(id));
    return bare;
  }
}

/** No record has this key. */
const NOTHING = [...fileKeys.extracting, '~'];

const BROKEN: FileMessage = {
  type: 'refused',
  reason: `its reader broke ${limits.extractionAttemptsMax} times`,
};

/** Overload and a full disk say nothing about the document, however often they happen. */
function passes(cause: unknown): boolean {
  return cause instanceof ApiError && (cause.row === 'overloaded' || cause.row === 'unavailable');
}

function unlessAborted<Value>(awaited: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    // A signal that is already aborted fires no event.
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    awaited.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function nothing(): void {}
