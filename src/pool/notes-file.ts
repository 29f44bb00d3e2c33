/**
 * Owns the file of what goes with a document's text: a line of JSON for each page, as it is answered; no file for nothing.
 * It must never make a reading fail for its size: pages beyond its bound have no notes.
 */
import { type FileHandle, open } from 'node:fs/promises';
import type { TakeRoom } from '../room.js';
import { GatheredWrites } from './gathered-writes.js';
import type { PageNotes } from './messages.js';
import { NotesRoom } from './notes-room.js';

export class NotesFile {
  #file: FileHandle | null = null;
  readonly #writes: GatheredWrites;
  readonly #room: NotesRoom;

  /** @param path null: nothing is kept. @param fileBytes of the document. */
  constructor(
    readonly path: string | null,
    fileBytes: number,
    withRoom: TakeRoom,
  ) {
    this.#room = new NotesRoom(fileBytes);
    this.#writes = new GatheredWrites(() => this.#open(), withRoom);
  }

  /** No page that follows has notes. */
  get isFull(): boolean {
    return this.#room.isFull;
  }

  /** Once a page. @throws Error where the disk does not take it. */
  async write(notes: PageNotes | null): Promise<void> {
    if (this.path === null) return;
    const bytes = this.#room.take(notes);
    if (bytes !== null) await this.#writes.add(bytes);
  }

  /** @returns what the whole file has; null where there is none. @throws Error where the disk does not take it. */
  async end(): Promise<{ readonly bytes: number; readonly crc32: number } | null> {
    await this.#writes.flush();
    const { bytes, crc32 } = this.#writes;
    return bytes === 0 ? null : { bytes, crc32 };
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }

  async #open(): Promise<FileHandle> {
    this.#file ??= await open(this.path ?? '', 'wx', 0o600);
    return this.#file;
  }
}
