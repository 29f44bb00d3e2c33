/**
 * Owns the reading of the notes of a text, page after page.
 * It must never hold more than the notes of one page.
 */
import type { FileHandle } from 'node:fs/promises';
import { limits } from '../limits/index.js';
import type { PageNotesLines } from '../protocol/content-forms.js';

const LINE_END = 0x0a;

export class NotesLines implements PageNotesLines {
  readonly #buffer = Buffer.allocUnsafe(limits.contentChangedBytes);
  #unread = Buffer.alloc(0);
  #at = 0;

  constructor(readonly file: FileHandle) {}

  /** The fields of the next page's JSON object, without the braces around them; empty behind the last one. */
  async next(): Promise<string> {
    const parts: Buffer[] = [];
    for (;;) {
      const end = this.#unread.indexOf(LINE_END);
      if (end >= 0) {
        parts.push(this.#unread.subarray(0, end));
        const line = Buffer.concat(parts).toString('utf8');
        this.#unread = this.#unread.subarray(end + 1);
        return line.slice(1, -1);
      }
      // The next piece overwrites the memory of this one.
      parts.push(Buffer.from(this.#unread));
      const { bytesRead } = await this.file.read(this.#buffer, 0, this.#buffer.length, this.#at);
      if (bytesRead === 0) return '';
      this.#at += bytesRead;
      this.#unread = this.#buffer.subarray(0, bytesRead);
    }
  }

  close(): Promise<void> {
    return this.file.close();
  }
}
