/**
 * Owns the way of a document's text out of the thread that reads it: in pieces, so many ahead of who takes them.
 * It must never part the two units of one character, nor hold a document's whole text.
 */
import { toUSVString } from 'node:util';
import type { MessagePort } from 'node:worker_threads';
import { packFrame } from '../codec.js';
import { limits } from '../limits/index.js';
import type { FromReader, PageNotes, TextPiece } from './messages.js';

export interface PageSink {
  /** Resolves when there is room for another. */
  writePage(text: string, pages: number | null, notes: PageNotes | null): Promise<void>;
}

export class TextPieces implements PageSink {
  #ahead = 0;
  #onTaken: () => void = () => {};

  constructor(readonly port: MessagePort) {
    port.on('message', (pieces: number) => {
      this.#ahead -= pieces;
      this.#onTaken();
    });
  }

  async writePage(text: string, pages: number | null, notes: PageNotes | null): Promise<void> {
    for (const piece of piecesOf(text, pages, notes)) {
      while (this.#ahead === limits.extractionPiecesAheadMax) await this.#taken();
      this.#ahead += 1;
      // Packed once, where the text is: who stands between hands on the bytes.
      const message: FromReader = { type: 'text', piece };
      const frame = new Uint8Array(packFrame([message]));
      this.port.postMessage(frame, [frame.buffer]);
    }
  }

  #taken(): Promise<void> {
    return new Promise((resolve) => {
      this.#onTaken = resolve;
    });
  }
}

/** Half a character, which no frame takes, is written as one that is not known. */
export function* piecesOf(
  page: string,
  pages: number | null,
  notes: PageNotes | null,
): Generator<TextPiece> {
  const text = toUSVString(page);
  let at = 0;
  do {
    const end = wholeEnd(text, at + limits.extractionPieceLength);
    const isLast = end === text.length;
    yield { text: text.slice(at, end), end: isLast ? { pages, notes } : null };
    at = end;
  } while (at < text.length);
}

/** A cut that does not part the two units of one character. */
function wholeEnd(text: string, end: number): number {
  const unit = text.charCodeAt(end - 1);
  const high = end < text.length && unit >= 0xd800 && unit <= 0xdbff;
  return Math.min(text.length, high ? end + 1 : end);
}
