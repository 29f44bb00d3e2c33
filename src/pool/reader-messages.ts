/**
 * Owns the reading of what a reader of documents says, which a hostile document may have made it say.
 * It must never let a value pass that is not of the declared form, nor longer than its bound.
 */
import type { ErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type { PictureToRead } from '../plugin/contract.js';
import type { FromReader, ReaderResult, ReadResult, TextPiece } from './messages.js';
import { checkedNotes } from './page-notes.js';

type Fields = Readonly<Record<string, unknown>>;

export interface Taking {
  /** False: what goes with a page is not looked at. */
  readonly takesNotes: boolean;
}

/** @throws Error for anything that a reader does not say. */
export function readerMessage(value: unknown, taking: Taking): FromReader {
  const { type, piece, picture, result, memoryBytes } = fieldsOf(value);
  if (type === 'ready' || type === 'memory') return { type };
  if (type === 'text') return { type, piece: pieceOf(fieldsOf(piece), taking) };
  if (type === 'picture') return { type, picture: pictureOf(fieldsOf(picture)) };
  if (type === 'end')
    return { type, result: resultOf(fieldsOf(result)), memoryBytes: count(memoryBytes) };
  throw new Error('a message of an unknown type');
}

function pieceOf({ text, end }: Fields, { takesNotes }: Taking): TextPiece {
  // A piece is longer by one unit where its last character has two.
  const said = words(text, limits.extractionPieceLength + 1);
  if (end === null) return { text: said, end };
  const { pages, notes } = fieldsOf(end);
  return {
    text: said,
    end: {
      pages: pages === null ? null : count(pages),
      notes: takesNotes ? checkedNotes(notes) : null,
    },
  };
}

function pictureOf({ width, height, pixels, layout }: Fields): PictureToRead {
  const [x, y] = [side(width), side(height)];
  if (!(pixels instanceof Uint8Array) || pixels.length !== x * y)
    throw new Error('a picture that is not as large as it says');
  if (pixels.length > limits.recognitionPixelsMax) throw new Error('a picture that is too large');
  if (layout !== 'page' && layout !== 'block') throw new Error('a layout that is none');
  return { width: x, height: y, pixels, layout };
}

function side(value: unknown): number {
  const pixels = count(value);
  if (pixels > 0 && pixels <= limits.recognitionSideMax) return pixels;
  throw new Error('a picture with a side that is none');
}

function resultOf({ type, result, fault, error }: Fields): ReaderResult {
  if (type === 'failed') return { type, error: errorOf(fieldsOf(error)) };
  if (type !== 'read') throw new Error('a result of an unknown type');
  const told = fault === null ? null : logged(fault);
  return { type, result: readOf(fieldsOf(result)), fault: told };
}

function readOf({ type, fileType, title, details, reason }: Fields): ReadResult {
  if (type === 'extracted') {
    return {
      type,
      fileType: mediaType(fileType),
      title: words(title, limits.extractionReasonLengthMax),
      details: words(details, limits.extractionReasonLengthMax),
    };
  }
  if (type !== 'refused') throw new Error('a reading of an unknown type');
  return {
    type,
    reason: words(reason, limits.extractionReasonLengthMax),
    fileType: fileType === null ? null : mediaType(fileType),
  };
}

/** It becomes the label of a figure and the answer to an uploader. */
function mediaType(value: unknown): string {
  const type = words(value, limits.extractionTypeLengthMax);
  if (!/^[\w.+-]+\/[\w.+-]+$/.test(type)) throw new Error('what is no media type');
  return type;
}

/** Never the document's fault; it is logged, and the row decides what a client hears. */
function errorOf({ values }: Fields): ErrorValue {
  return { row: 'server', values: { error: logged(fieldsOf(values).error) }, extra: {} };
}

/** Of any length: the log has its own bound. */
function logged(value: unknown): string {
  if (typeof value !== 'string') throw new Error('no text');
  return value.slice(0, limits.extractionFaultLengthMax);
}

function words(value: unknown, lengthMax: number): string {
  if (typeof value === 'string' && value.length <= lengthMax) return value;
  throw new Error('no text, or one that is too long');
}

function count(value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new Error('no count');
}

function fieldsOf(value: unknown): Fields {
  if (typeof value === 'object' && value !== null) return value as Fields;
  throw new Error('no message');
}
