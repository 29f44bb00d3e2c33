/**
 * Owns what one document costs outside its reader: the file its bytes come from, and the file its text goes to.
 * It must never believe its reader: how much text there is, and how far it is ahead, is counted here.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { limits } from '../limits/index.js';
import type { ExtractionBounds } from '../plugin/contract.js';
import type { ExtractProgress, ExtractResult, ReadResult, TextPiece } from './messages.js';
import { type TextBound, TextExcess, TextFile } from './text-file.js';

export interface ExtractTask {
  /** File with the document's bytes. */
  readonly source: string;
  readonly filename: string;
  /**
   * File to write, which must not exist: the text of all pages as one JSON string literal, UTF-8, pages parted by a
   * form feed. Removed again when the extraction fails.
   */
  readonly target: string;
  /** Of the target; absent: what the bounds of the service say of any document. */
  readonly text?: TextBound;
}

const usualText: TextBound = {
  bytesMax: limits.extractionTextBytesMax,
  excess: `its text has more than ${limits.extractionTextBytesMax} bytes`,
};

export type ReadingBounds = Pick<ExtractionBounds, 'pagesMax' | 'textLengthMax'>;

interface Listener {
  onPage(progress: ExtractProgress): void;
  /** One more piece may come. */
  onTaken(): void;
  /** The disk did not take a piece, or did not give the document. */
  onFault(cause: Error): void;
  /** The text is larger than it may be: the document is refused for that. */
  onExcess(reason: string): void;
}

export class Reading {
  #ahead = 0;
  #length = 0;
  #pages = 0;
  #written: Promise<void> = Promise.resolve();

  private constructor(
    readonly source: FileHandle,
    readonly bytes: number,
    readonly text: TextFile,
    readonly bounds: ReadingBounds,
    readonly listener: Listener,
  ) {}

  /** @throws Error where source or target cannot be used: no fault of the document. */
  static async open(
    { source, target, text = usualText }: ExtractTask,
    bounds: ReadingBounds,
    listener: Listener,
  ): Promise<Reading> {
    const file = await open(source, 'r');
    try {
      const { size } = await file.stat();
      return new Reading(file, size, await TextFile.create(target, text), bounds, listener);
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
    const options = { end: this.bytes - 1, highWaterMark: READ_BYTES, autoClose: false };
    if (this.bytes === 0) return;
    const bytes = this.source.createReadStream(options);
    for await (const part of bytes) {
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
      if (cause instanceof TextExcess) this.listener.onExcess(cause.message);
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
    try {
      await this.#written;
      written = await this.text.end();
    } catch (cause) {
      if (!(cause instanceof TextExcess)) throw cause;
      return { type: 'refused', reason: cause.message, fileType: result.fileType };
    }
    const { fileType, title } = result;
    return { type: 'extracted', document: { fileType, title, pages: this.text.pages, ...written } };
  }

  /** Nothing is written any more after it. */
  async close(): Promise<void> {
    await this.#written.catch(() => {});
    await Promise.all([this.source.close(), this.text.close()]);
  }

  async #write(piece: TextPiece): Promise<void> {
    await this.text.write(piece);
    this.#ahead -= 1;
    this.listener.onTaken();
    const { end } = piece;
    if (end !== null) this.listener.onPage({ page: this.text.pages, pages: end.pages });
  }
}

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
