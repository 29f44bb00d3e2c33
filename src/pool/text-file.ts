/**
 * Owns the file of a document's text: one JSON string literal in UTF-8 with a form feed between pages, written page by page.
 * It must never hold more than a piece of a page, nor write invalid JSON.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { toUSVString } from 'node:util';
import { crc32 } from '../crc32.js';
import type { TakeRoom } from '../room.js';
import type { TextPiece } from './messages.js';

export interface TextBound {
  readonly bytesMax: number;
  /** Why a document with more is refused, for its uploader. */
  readonly excess: string;
}

/** The text is larger than its bound; the message is for the uploader. */
export class TextExcess extends Error {}

const QUOTE = '"';
const PAGE_BREAK = '\\f';

export class TextFile {
  /** Pages written so far. */
  pages = 0;
  #bytes = 0;
  #crc32 = 0;
  #between = QUOTE;

  private constructor(
    readonly file: FileHandle,
    readonly bound: TextBound,
    readonly withRoom: TakeRoom,
  ) {}

  /** @throws Error where the file already exists. */
  static async create(path: string, bound: TextBound, withRoom: TakeRoom): Promise<TextFile> {
    return new TextFile(await open(path, 'wx', 0o600), bound, withRoom);
  }

  /** @throws Error where the disk does not take it; TextExcess before the bound would be exceeded. */
  async write({ text, end }: TextPiece): Promise<void> {
    const escaped = JSON.stringify(toUSVString(text)).slice(1, -1);
    const between = this.#between;
    this.#between = end === null ? '' : PAGE_BREAK;
    if (end !== null) this.pages += 1;
    await this.#write(between + escaped);
  }

  /** @returns what the whole file has. */
  async end(): Promise<{ readonly bytes: number; readonly crc32: number }> {
    await this.#write(this.pages === 0 ? QUOTE + QUOTE : QUOTE);
    return { bytes: this.#bytes, crc32: this.#crc32 };
  }

  close(): Promise<void> {
    return this.file.close();
  }

  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    // Room for the closing quote is left to it.
    const last = text === QUOTE ? 0 : QUOTE.length;
    if (this.#bytes + bytes.length + last > this.bound.bytesMax) {
      throw new TextExcess(this.bound.excess);
    }
    await this.withRoom(bytes.length, async () => {
      for (let at = 0; at < bytes.length; ) {
        at += (await this.file.write(bytes, at)).bytesWritten;
      }
    });
    this.#bytes += bytes.length;
    this.#crc32 = crc32(bytes, this.#crc32);
  }
}
