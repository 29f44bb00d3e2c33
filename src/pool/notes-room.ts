/**
 * Owns how much is kept of what goes with the text of one document: a line of JSON for each page, as it is answered.
 * It must never count otherwise for the one who reads the document than for the one who keeps its notes.
 */
import { limits } from '../limits/index.js';
import type { PageNotes } from './messages.js';

const NOTHING = '{}\n';

export class NotesRoom {
  isFull = false;
  #left: number;
  /** Pages without notes since the last one that has some. */
  #skipped = 0;

  /** @param fileBytes of the document: one that says the same on each page has no more room than its size gives it. */
  constructor(fileBytes: number) {
    const { extractionTextBytesMin, extractionTextRatioMax, extractionNotesBytesMax } = limits;
    const grown = extractionTextBytesMin + extractionTextRatioMax * fileBytes;
    this.#left = Math.min(extractionNotesBytesMax, grown);
  }

  /** Once a page. @returns what is kept of it, with what stands for the pages before it; null for nothing. */
  take(notes: PageNotes | null): Buffer | null {
    if (this.isFull) return null;
    const line = notes === null ? NOTHING : `${JSON.stringify(shown(notes))}\n`;
    if (line === NOTHING || line.length > limits.extractionNotesLineLengthMax) {
      this.#skipped += 1;
      return null;
    }
    const bytes = Buffer.from(NOTHING.repeat(this.#skipped) + line);
    this.#skipped = 0;
    this.isFull = bytes.length > this.#left;
    if (this.isFull) return null;
    this.#left -= bytes.length;
    return bytes;
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
