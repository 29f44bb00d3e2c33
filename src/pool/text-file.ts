/**
 * Owns the file of a document's text: one JSON string literal in UTF-8 with a form feed between pages, written page by page.
 * It must never hold more than a piece of a page and what is gathered for a write, nor write invalid JSON.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { toUSVString } from 'node:util';
import type { TakeRoom } from '../room.js';
import { GatheredWrites } from './gathered-writes.js';
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
  /** Pages taken so far. */
  pages = 0;
  readonly #writes: GatheredWrites;
  #between = QUOTE;

  private constructor(
    readonly file: FileHandle,
    readonly bound: TextBound,
    withRoom: TakeRoom,
  ) {
    this.#writes = new GatheredWrites(async () => file, withRoom);
  }

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
    await this.#writes.flush();
    const { bytes, crc32 } = this.#writes;
    return { bytes, crc32 };
  }

  close(): Promise<void> {
    return this.file.close();
  }

  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    // Room for the closing quote is left to it.
    const last = text === QUOTE ? 0 : QUOTE.length;
    if (this.#writes.bytes + bytes.length + last > this.bound.bytesMax) {
      throw new TextExcess(this.bound.excess);
    }
    await this.#writes.add(bytes);
  }
}
