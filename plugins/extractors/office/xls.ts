/**
 * Owns the text of workbooks of Excel before 2007: a page a sheet, what the cells show.
 * It must never compute a formula or run a macro.
 */
import type { DocumentClaim, ExtractionBounds, SourceDocument } from 'preface/plugin';
import type { PicturedPage } from '../ocr/picture-texts.js';
import { picturedPlugin } from '../shared/pictured.js';
import { locked, refusal } from '../shared/refusal.js';
import { type BiffRecord, biffRecords } from './biff-records.js';
import { PICTURE_OPTIONS, storedBlips } from './blips.js';
import { commentLine } from './comments.js';
import { openedWorkbook } from './default-password.js';
import { sheetPage } from './grid.js';
import { claimOle, type OleContainer, openOle } from './ole.js';
import { titleOf } from './ole-title.js';
import { readBinaryWorkbook } from './sheetjs.js';

const fileType = 'application/vnd.ms-excel';
const streams = ['Workbook', 'Book'];

export default picturedPlugin({
  name: 'extractor-xls',
  accepts,
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function accepts(document: SourceDocument): DocumentClaim | null {
  return claimOle(document, { fileType, streams, names: /\.xl[ast]$/i });
}

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<PicturedPage> {
  const container = openOle(bytes);
  const title = titleOf(container);
  const stream = workbookOf(container);
  let read = 0;
  for (const { name, grid, comments, pages } of sheetsOf(stream, bounds)) {
    const said = comments.filter(({ text }) => text !== '').map(commentLine);
    const blocks = [sheetPage(name, grid), said.join('\n')];
    const text = blocks.filter((block) => block !== '').join('\n\n');
    read += 1;
    const page = { text, pages, unit: 'sheet', title } as const;
    yield read === pages
      ? { ...page, shown: storedBlips(drawingsOf(stream), namedIn(stream)) }
      : page;
  }
}

function workbookOf(container: OleContainer): Buffer {
  const stream = container.stream('Workbook') ?? container.stream('Book');
  if (stream === null) throw refusal('damaged', 'it is damaged: its workbook is missing');
  const opened = openedWorkbook(stream);
  if (opened === null) throw locked();
  return opened;
}

function sheetsOf(stream: Buffer, bounds: ExtractionBounds) {
  try {
    return readBinaryWorkbook(stream, bounds);
  } catch (cause) {
    if (cause instanceof Error && /password|encrypt/i.test(cause.message)) throw locked();
    throw cause;
  }
}

const DRAWING_GROUP = 0xeb;
const CONTINUE = 0x3c;
const DRAWING = 0xec;
/** A picture in a header or footer. */
const HEADER_PICTURE = 0x866;
/** That the value of an option is the number of a picture in the store. */
const STORED = 0x4000;
/** As they stand in a record. */
const NAMES = PICTURE_OPTIONS.map((option) => {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(option | STORED);
  return bytes;
});

/** Its name and its value. */
const OPTION_BYTES = 6;

/** What all sheets draw, which may go on over many records. */
function drawingsOf(stream: Buffer): Buffer {
  let length = 0;
  for (const { from, to } of drawingRecords(stream)) length += to - from;
  const drawings = Buffer.alloc(length);
  let at = 0;
  for (const { from, to } of drawingRecords(stream)) at += stream.copy(drawings, at, from, to);
  return drawings;
}

function* drawingRecords(stream: Buffer): Generator<BiffRecord> {
  let last = 0;
  for (const record of biffRecords(stream)) {
    if (record.type !== CONTINUE) last = record.type;
    if (last === DRAWING_GROUP) yield record;
  }
}

/**
 * Numbers of the pictures that shapes name. A sheet's drawing breaks off anywhere and goes on behind records of other
 * kinds, so the options are looked for by their bytes: a number too many shows a picture that is stored, a number too
 * few loses one.
 */
function namedIn(stream: Buffer): Set<number> {
  const named = new Set<number>();
  let last = 0;
  for (const { type, from, to } of biffRecords(stream)) {
    if (type !== CONTINUE) last = type;
    const draws = [DRAWING, HEADER_PICTURE].includes(type);
    if (!draws && (type !== CONTINUE || last === DRAWING_GROUP)) continue;
    const bytes = stream.subarray(from, to);
    addNumbers(bytes, named);
  }
  return named;
}

function addNumbers(bytes: Buffer, numbers: Set<number>): void {
  for (const name of NAMES) {
    for (let at = bytes.indexOf(name); at >= 0; at = bytes.indexOf(name, at + 1)) {
      if (at + OPTION_BYTES <= bytes.length) numbers.add(bytes.readUInt32LE(at + name.length));
    }
  }
}
