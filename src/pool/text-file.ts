/**
 * Owns the file of a document's text: one JSON string literal in UTF-8, pages parted by a form feed, written as it comes.
 * It must never hold more than a piece of a page, nor write what is no valid JSON.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { toUSVString } from 'node:util';
import type { TextPiece } from './messages.js';

const QUOTE = '"';
const PAGE_BREAK = '\\f';

export class TextFile {
  /** Pages written. */
  pages = 0;
  #bytes = 0;
  #between = QUOTE;

  private constructor(readonly file: FileHandle) {}

  /** @throws Error where there is such a file already. */
  static async create(path: string): Promise<TextFile> {
    return new TextFile(await open(path, 'wx', 0o600));
  }

  /** @throws Error where the disk does not take it. */
  async write({ text, end }: TextPiece): Promise<void> {
    const escaped = JSON.stringify(toUSVString(text)).slice(1, -1);
    const between = this.#between;
    this.#between = end === null ? '' : PAGE_BREAK;
    if (end !== null) this.pages += 1;
    await this.#write(between + escaped);
  }

  /** @returns bytes of the whole file. */
  async end(): Promise<number> {
    await this.#write(this.pages === 0 ? QUOTE + QUOTE : QUOTE);
    return this.#bytes;
  }

  close(): Promise<void> {
    return this.file.close();
  }

  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) {
      at += (await this.file.write(bytes, at)).bytesWritten;
    }
    this.#bytes += bytes.length;
  }
}
