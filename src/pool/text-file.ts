/**
 * Owns the file of a document's text: one JSON string literal in UTF-8, pages parted by a form feed, written as it comes.
 * It must never hold more than a piece of a page, nor write what is no valid JSON.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { toUSVString } from 'node:util';
import { limits } from '../limits/index.js';

const QUOTE = '"';
const PAGE_BREAK = '\\f';

export class TextFile {
  /** Pages written. */
  pages = 0;
  /** Nothing but blanks so far. */
  blank = true;
  /** The disk did not take a write. */
  failed = false;
  #bytes = 0;

  private constructor(readonly file: FileHandle) {}

  /** @throws Error where there is such a file already. */
  static async create(path: string): Promise<TextFile> {
    return new TextFile(await open(path, 'wx', 0o600));
  }

  async writePage(text: string): Promise<void> {
    await this.#write(this.pages === 0 ? QUOTE : PAGE_BREAK);
    this.pages += 1;
    this.blank &&= !/\S/.test(text);
    const step = limits.extractionWriteLength;
    for (let at = 0; at < text.length; ) {
      const end = wholeEnd(text, at + step);
      await this.#write(JSON.stringify(toUSVString(text.slice(at, end))).slice(1, -1));
      at = end;
    }
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
    try {
      for (let at = 0; at < bytes.length; ) {
        at += (await this.file.write(bytes, at)).bytesWritten;
      }
    } catch (cause) {
      this.failed = true;
      throw cause;
    }
    this.#bytes += bytes.length;
  }
}

/** A cut that does not part the two units of one character. */
function wholeEnd(text: string, end: number): number {
  const unit = text.charCodeAt(end - 1);
  const high = end < text.length && unit >= 0xd800 && unit <= 0xdbff;
  return Math.min(text.length, high ? end + 1 : end);
}
