/**
 * Owns the file of what goes with a document's text: a line of JSON for each page, as it is answered; no file for nothing.
 * It must never make a reading fail for its size: pages beyond its bound have no notes.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from '../crc32.js';
import type { TakeRoom } from '../room.js';
import type { PageNotes } from './messages.js';
import { NotesRoom } from './notes-room.js';

export class NotesFile {
  #file: FileHandle | null = null;
  #bytes = 0;
  #crc32 = 0;
  readonly #room: NotesRoom;

  /** @param path null: nothing is kept. @param fileBytes of the document. */
  constructor(
    readonly path: string | null,
    fileBytes: number,
    readonly withRoom: TakeRoom,
  ) {
    this.#room = new NotesRoom(fileBytes);
  }

  /** No page that follows has notes. */
  get isFull(): boolean {
    return this.#room.isFull;
  }

  /** Once a page. @throws Error where the disk does not take it. */
  async write(notes: PageNotes | null): Promise<void> {
    if (this.path === null) return;
    const bytes = this.#room.take(notes);
    if (bytes === null) return;
    this.#file ??= await open(this.path, 'wx', 0o600);
    const file = this.#file;
    await this.withRoom(bytes.length, async () => {
      for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
    });
    this.#bytes += bytes.length;
    this.#crc32 = crc32(bytes, this.#crc32);
  }

  /** What the file has; null where there is none. */
  get written(): { readonly bytes: number; readonly crc32: number } | null {
    return this.#file === null ? null : { bytes: this.#bytes, crc32: this.#crc32 };
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}
