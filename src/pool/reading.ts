/**
 * Owns what one document costs outside its reader: the file its bytes come from, and the file its text goes to.
 * It must never believe its reader: how much text there is, and how far it is ahead, is counted here.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { crc32 } from '../crc32.js';
import { limits } from '../limits/index.js';
import type { ExtractionBounds } from '../plugin/contract.js';
import { anyRoom, type TakeRoom } from '../room.js';
import type { ExtractProgress, ExtractResult, ReadResult, TextPiece } from './messages.js';
import { NotesFile } from './notes-file.js';
import { type TextBound, TextExcess, TextFile } from './text-file.js';

export interface ExtractTask {
  /** Path of the file with the document's bytes, or what opens it when the document's turn has come. */
  readonly source: string | (() => Promise<FileHandle>);
  readonly filename: string;
  /**
   * File to write, which must not exist: the text of all pages as one JSON string literal, UTF-8, pages parted by a
   * form feed. Removed again when the extraction fails.
   */
  readonly target: string;
  /** The same for what goes with the text of its pages, where there is something; absent: it is not kept. */
  readonly notesTarget?: string | undefined;
  /** Of the target; absent: what the bounds of the service say of any document. */
  readonly text?: TextBound;
  /** Of the source, where it is known: other bytes are not read. */
  readonly crc32?: number | undefined;
  /** Asked before each write of text. */
  readonly withRoom?: TakeRoom | undefined;
}

const usualText: TextBound = {
  bytesMax: limits.extractionTextBytesMax,
  excess: `its text has more than ${limits.extractionTextBytesMax} bytes`,
};

export type ReadingBounds = Pick<ExtractionBounds, 'pagesMax' | 'textLengthMax'>;

interface Listener {
  onPage(progress: ExtractProgress): void;
  /** So many more pieces may come. */
  onTaken(pieces: number): void;
  /** The disk did not take a piece, or did not give the document. */
  onFault(cause: Error): void;
  /** The text is larger than it may be, or the document is damaged: it is refused for that. */
  onRefused(reason: string): void;
}

/** Few documents have so many pieces: the others are read without a word to their reader. */
const TOLD_AT_ONCE = limits.extractionPiecesAheadMax / 2;

export class Reading {
  #ahead = 0;
  /** Pieces that were taken since the reader was told. */
  #untold = 0;
  #length = 0;
  #pages = 0;
  #written: Promise<void> = Promise.resolve();

  private constructor(
    readonly source: FileHandle,
    readonly bytes: number,
    readonly sum: number | undefined,
    readonly text: TextFile,
    readonly notes: NotesFile,
    readonly bounds: ReadingBounds,
    readonly listener: Listener,
  ) {}

  /** @throws Error where source or target cannot be used: no fault of the document. */
  static async open(
    { source, target, notesTarget, text = usualText, crc32: sum, withRoom = anyRoom }: ExtractTask,
    bounds: ReadingBounds,
    listener: Listener,
  ): Promise<Reading> {
    const file = await (typeof source === 'string' ? open(source, 'r') : source());
    try {
      const { size } = await file.stat();
      const written = await TextFile.create(target, text, withRoom);
      const notes = new NotesFile(notesTarget ?? null, size, withRoom);
      return new Reading(file, size, sum, written, notes, bounds, listener);
    } catch (cause) {
      await file.close();
      throw cause;
    }
  }

  /** A reader that ends under it is told of elsewhere. */
  send(pipe: Writable): void {
    this.#send(pipe).catch(this.listener.onFault);
  }

  async #send(pipe: Writable): Promise<void> {
    let [sum, at] = [0, 0];
    while (at < this.bytes) {
      const room = Buffer.allocUnsafe(Math.min(READ_BYTES, this.bytes - at));
      const { bytesRead } = await this.source.read(room, 0, room.length, at);
      if (bytesRead === 0) return;
      const part = room.subarray(0, bytesRead);
      sum = crc32(part, sum);
      at += part.length;
      // Before its last part leaves: nothing is read of a document that is not whole.
      if (at === this.bytes && this.sum !== undefined && this.sum !== sum) {
        this.listener.onRefused(DAMAGED);
        return;
      }
      if (!pipe.writable) return;
      if (!pipe.write(part)) await drained(pipe);
    }
  }

  /** @throws Error where the reader keeps no bound. */
  take(piece: TextPiece): void {
    this.#ahead += 1;
    this.#length += piece.text.length;
    if (piece.end !== null) this.#pages += 1;
    const { pagesMax, textLengthMax } = this.bounds;
    const isOver = this.#length > textLengthMax || this.#pages > pagesMax;
    if (isOver || this.#ahead > limits.extractionPiecesAheadMax)
      throw new Error('more text than allowed');
    this.#written = this.#written.then(() => this.#write(piece));
    this.#written.catch((cause: Error) => {
      if (cause instanceof TextExcess) this.listener.onRefused(cause.message);
      else this.listener.onFault(cause);
    });
  }

  /** @throws Error where the disk did not take the text. */
  async end(result: ReadResult): Promise<ExtractResult> {
    if (result.type === 'refused') {
      await this.#written;
      return result;
    }
    let written: Awaited<ReturnType<TextFile['end']>>;
    let notes: Awaited<ReturnType<NotesFile['end']>>;
    try {
      await this.#written;
      [written, notes] = [await this.text.end(), await this.notes.end()];
    } catch (cause) {
      if (!(cause instanceof TextExcess)) throw cause;
      return { type: 'refused', reason: cause.message, fileType: result.fileType };
    }
    const { fileType, title, details } = result;
    const { pages } = this.text;
    const document = { fileType, title, details, pages, ...written, ...(notes && { notes }) };
    return { type: 'extracted', document };
  }

  /** Nothing is written any more after it. */
  async close(): Promise<void> {
    await this.#written.catch(() => {});
    await Promise.all([this.source.close(), this.text.close(), this.notes.close()]);
  }

  async #write(piece: TextPiece): Promise<void> {
    const { end } = piece;
    await this.text.write(piece);
    if (end !== null) await this.notes.write(end.notes);
    this.#ahead -= 1;
    this.#untold += 1;
    if (this.#untold >= TOLD_AT_ONCE) {
      this.listener.onTaken(this.#untold);
      this.#untold = 0;
    }
    if (end !== null) this.listener.onPage({ page: this.text.pages, pages: end.pages });
  }
}

const DAMAGED = 'its stored bytes are damaged: delete it, then upload it again';
const READ_BYTES = 256 * 1024;

function drained(pipe: Writable): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      pipe.off('drain', go).off('close', go);
      resolve();
    };
    pipe.on('drain', go).on('close', go);
  });
}
