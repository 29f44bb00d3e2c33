/**
 * Owns large images apart from the JSON they came in: their base64 in one memory, and the marks that stand for them.
 * It must never take a client's text for a mark: a mark holds a secret of its request.
 */
import { limits } from '../limits/index.js';
import type { OwnBytes } from './memory.js';

export interface ImageMarks {
  /** Made for this request, and told nobody. */
  readonly secret: string;
  /** Where each image ends in the bytes. */
  readonly ends: readonly number[];
}

export interface LargeImages extends ImageMarks {
  /** Base64 of all images, one behind the other. */
  readonly bytes: OwnBytes;
}

/** It has letters and digits alone: it stands where base64 stood. */
export function imageMark({ secret }: Pick<ImageMarks, 'secret'>, index: number): string {
  return `${secret}x${index}x`;
}

function markPattern({ secret }: ImageMarks): RegExp {
  return new RegExp(`${secret}x(\\d+)x`, 'g');
}

export function hasMark(text: string, { secret }: ImageMarks): boolean {
  return text.includes(secret);
}

/** The text as the client wrote it. @param bytes of all images. */
export function withImages(text: string, images: ImageMarks, bytes: Uint8Array): string {
  if (!hasMark(text, images)) return text;
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return text.replace(markPattern(images), (_, digits: string) => {
    const { start, end } = rangeOf(images, Number(digits));
    return all.toString('latin1', start, end);
  });
}

function rangeOf({ ends }: ImageMarks, index: number): { start: number; end: number } {
  return { start: ends[index - 1] ?? 0, end: ends[index] ?? 0 };
}

/** UTF-16 units that the images of a text take beyond their marks. */
export function lengthBeyondMarks(text: string, images: ImageMarks): number {
  let more = 0;
  for (const [mark, digits] of text.matchAll(markPattern(images))) {
    const { start, end } = rangeOf(images, Number(digits));
    more += end - start - mark.length;
  }
  return more;
}

/** The bytes piece by piece, the last one first: each is given back before the next is taken. */
export function* imagePieces({ bytes: { buffer } }: LargeImages): Generator<Uint8Array, void> {
  while (buffer.byteLength > 0) {
    const start = Math.max(0, buffer.byteLength - limits.imagePieceBytes);
    // A view of the whole would be empty once a piece is gone.
    yield new Uint8Array(buffer, start);
    buffer.resize(start);
  }
}

/** What came piece by piece, in order again. */
export function joinedPieces(pieces: readonly Uint8Array[]): Buffer {
  return Buffer.concat(pieces.toReversed());
}
