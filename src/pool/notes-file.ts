/**
 * Owns the file of what goes with a document's text: a line of JSON for each page, as it is answered; no file for nothing.
 * It must never make a reading fail for its size: pages beyond its bound have no notes.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { crc32 } from '../crc32.js';
import { limits } from '../limits/index.js';
import type { PageNotes } from './messages.js';
import type { TakeRoom } from './text-file.js';

const NOTHING = '{}\n';

export class NotesFile {
  #file: FileHandle | null = null;
  /** Pages without notes since the last one that has some. */
  #skipped = 0;
  #bytes = 0;
  #crc32 = 0;
  #isFull = false;

  /** @param path null: nothing is kept. */
  constructor(
    readonly path: string | null,
    readonly withRoom: TakeRoom,
  ) {}

  /** Once a page. @throws Error where the disk does not take it. */
  async write(notes: PageNotes | null): Promise<void> {
    if (this.path === null || this.#isFull) return;
    const line = notes === null ? NOTHING : `${JSON.stringify(shown(notes))}\n`;
    if (line === NOTHING || line.length > limits.extractionNotesLineLengthMax) {
      this.#skipped += 1;
      return;
    }
    const bytes = Buffer.from(NOTHING.repeat(this.#skipped) + line);
    this.#skipped = 0;
    if (this.#bytes + bytes.length > limits.extractionNotesBytesMax) {
      this.#isFull = true;
      return;
    }
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

/** By the names that clients read. */
function shown({ recognized, skipped, layout }: PageNotes): object {
  if (layout === undefined) return { ocr_score: recognized, skipped };
  const { width, height, unit, lines } = layout;
  return { width, height, unit, ocr_score: recognized, skipped, lines: lines.map(shownLine) };
}

type Shown = NonNullable<PageNotes['layout']>['lines'][number];

function shownLine(line: Shown): object | null {
  return line && { box: line.box, ocr_score: line.score };
}
