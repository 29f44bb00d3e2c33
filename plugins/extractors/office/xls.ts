/**
 * Owns the text of workbooks of Excel before 2007: a page a sheet, what the cells show.
 * It must never compute a formula or run a macro.
 */
import type { DocumentClaim, DocumentPage, ExtractionBounds, SourceDocument } from 'preface/plugin';
import { documentPlugin } from '../shared/plugin.js';
import { locked, refusal } from '../shared/refusal.js';
import { commentLine } from './comments.js';
import { openedWorkbook } from './default-password.js';
import { sheetPage } from './grid.js';
import { claimOle, type OleContainer, openOle } from './ole.js';
import { titleOf } from './ole-title.js';
import { readBinaryWorkbook } from './sheetjs.js';

const fileType = 'application/vnd.ms-excel';
const streams = ['Workbook', 'Book'];

export default documentPlugin({
  name: 'extractor-xls',
  accepts,
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function accepts(document: SourceDocument): DocumentClaim | null {
  return claimOle(document, { fileType, streams, names: /\.xl[ast]$/i });
}

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<DocumentPage> {
  const container = openOle(bytes);
  const title = titleOf(container);
  for (const { name, grid, comments, pages } of workbook(container, bounds)) {
    const said = comments.filter(({ text }) => text !== '').map(commentLine);
    const blocks = [sheetPage(name, grid), said.join('\n')];
    yield {
      text: blocks.filter((block) => block !== '').join('\n\n'),
      pages,
      unit: 'sheet',
      title,
    };
  }
}

function workbook(container: OleContainer, bounds: ExtractionBounds) {
  const stream = container.stream('Workbook') ?? container.stream('Book');
  if (stream === null) throw refusal('damaged', 'it is damaged: its workbook is missing');
  const opened = openedWorkbook(stream);
  if (opened === null) throw locked();
  try {
    return readBinaryWorkbook(opened, bounds);
  } catch (cause) {
    if (cause instanceof Error && /password|encrypt/i.test(cause.message)) throw locked();
    throw cause;
  }
}
