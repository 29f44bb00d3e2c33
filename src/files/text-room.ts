/**
 * Owns the room that extracted texts take: the bound of one text, and its part of what its owner may keep.
 * It must never let a text count that is not kept, nor one be kept that does not count.
 *
 * A text that is being written does not count yet: its length is not known. It is cut off at its bound, no more are
 * written than there are processes that read, and a text that is whole takes its room before it gets its name.
 */
import type { Held, Quota, Reservation } from '../actors/quota.js';
import { limits } from '../limits/index.js';
import type { TextBound } from '../pool/text-file.js';
import type { FileMessage, FileRecord } from '../rules/file-state.js';

type Refused = Extract<FileMessage, { readonly type: 'refused' }>;

export interface TextRoomParts {
  readonly quota: Quota;
  /** Of one owner. */
  readonly max: (owner: string) => Held;
}

export class TextRoom {
  readonly #parts: TextRoomParts;
  /** Taken by texts whose records do not say so yet, by the file's id. */
  readonly #places = new Map<string, Reservation>();

  constructor(parts: TextRoomParts) {
    this.#parts = parts;
  }

  /** Of a text that is about to be written. */
  async bound({ owner, bytes }: FileRecord): Promise<TextBound> {
    const own = textBoundOf(bytes);
    const { quota, max } = this.#parts;
    const left = Math.max(0, max(owner).bytes - (await quota.held(owner)).bytes);
    return left < own.bytesMax ? { bytesMax: left, excess: noRoom(max(owner)) } : own;
  }

  /** @returns null where it took the room; otherwise what it means to the file. */
  async take({ id, owner }: FileRecord, bytes: number): Promise<Refused | null> {
    const { quota, max } = this.#parts;
    this.giveBack(id);
    try {
      this.#places.set(id, await quota.reserve(owner, bytes, 0));
      return null;
    } catch {
      return { type: 'refused', reason: noRoom(max(owner)) };
    }
  }

  /** The record says so now. */
  kept(id: string): void {
    this.#places.get(id)?.kept();
    this.#places.delete(id);
  }

  /** The file has gone, or is read anew. */
  giveBack(id: string): void {
    this.#places.get(id)?.giveBack();
    this.#places.delete(id);
  }
}

/** Bytes of one document, of any owner. */
export function textBoundOf(fileBytes: number): TextBound {
  const { extractionTextBytesMin, extractionTextBytesMax, extractionTextRatioMax } = limits;
  const grown = extractionTextBytesMin + extractionTextRatioMax * fileBytes;
  const bytesMax = Math.min(extractionTextBytesMax, grown);
  const excess = `its text has more than ${bytesMax} bytes, the most that is kept of a file of ${fileBytes} bytes`;
  return { bytesMax, excess };
}

function noRoom({ bytes }: Held): string {
  return (
    `its text does not fit: your files and their texts together may have at most ${bytes} bytes; ` +
    'delete some files, then upload it again'
  );
}
