/**
 * Owns the text of Mobipocket and Kindle books, a page for each break that the book marks.
 * It must never read an encrypted book, or a picture in any book.
 */
import type { DocumentClaim, DocumentPage, ExtractionBounds, SourceDocument } from 'preface/plugin';
import { HtmlBody } from '../markup/html-body.js';
import { readHtml } from '../markup/walk.js';
import { decodeCodePage } from '../shared/decoder.js';
import { Flow } from '../shared/flow.js';
import { documentPlugin } from '../shared/plugin.js';
import { refusal } from '../shared/refusal.js';
import { type BookHeader, isBook, PalmDatabase, readHeader } from './palm.js';
import { huffmanOf, type Unpack, unpackNothing, unpackPalmDoc, withoutTrailing } from './unpack.js';

const fileType = 'application/x-mobipocket-ebook';

export default documentPlugin({
  name: 'extractor-mobi',
  accepts,
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function accepts({ bytes }: SourceDocument): DocumentClaim | null {
  return isBook(bytes) ? { fileType, ground: 'content' } : null;
}

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<DocumentPage> {
  const database = new PalmDatabase(bytes);
  const header = readHeader(database);
  if (header.encrypted) throw refusal('encrypted', 'it is protected by digital rights management');
  const flow = new Flow(bounds.textLengthMax);
  const body = new HtmlBody(flow);
  readHtml(
    [decodeCodePage(markupOf(database, header, bounds), header.codePage)],
    body,
    bounds.nestingMax,
  );
  body.end();
  // Some books have a page break before the first page, or two in a row; neither makes an empty page.
  const pages = flow.end().filter((text) => text !== '');
  for (const text of pages) yield { text, pages: pages.length, unit: 'page', title: header.title };
}

function markupOf(database: PalmDatabase, header: BookHeader, bounds: ExtractionBounds): Buffer {
  const unpack = unpackOf(database, header);
  const records: Buffer[] = [];
  let packed = 0;
  for (let index = 1; index <= header.textRecords; index++) {
    const record = withoutTrailing(database.record(index), header.trailing);
    records.push(record);
    packed += record.length;
  }
  let left = Math.min(bounds.unpackedBytesMax, packed * bounds.unpackRatioMax);
  const parts = records.map((record) => {
    const part = unpack(record, left);
    left -= part.length;
    return part;
  });
  const markup = Buffer.concat(parts);
  return markup.subarray(0, textEnd(database, header) ?? markup.length);
}

function unpackOf(database: PalmDatabase, { compression, codes }: BookHeader): Unpack {
  if (compression === 'none') return unpackNothing;
  if (compression === 'palmdoc') return unpackPalmDoc;
  const count = Math.min(codes.count, database.count);
  return huffmanOf(Array.from({ length: count }, (_, at) => database.record(codes.first + at)));
}

/** Newer books store their styles after the text. */
function textEnd(database: PalmDatabase, { flows }: BookHeader): number | null {
  if (flows === null || flows >= database.count) return null;
  const record = database.record(flows);
  if (record.toString('latin1', 0, 4) !== 'FDST' || record.length < 20) return null;
  return record.readUInt32BE(16);
}
