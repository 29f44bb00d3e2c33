/**
 * Owns the documents that Word and Excel 2003 saved as one file of XML, under whatever name they come.
 * It must never follow a reference out of the document.
 */
import type { DocumentClaim, DocumentPage, ExtractionBounds, SourceDocument } from 'preface/plugin';
import { documentPlugin } from '../shared/plugin.js';
import { withSheetJs } from './sheetjs.js';
import { readSheets } from './spreadsheet-xml.js';
import { readWordXml } from './word-xml.js';

const HEAD_BYTES = 4096;
const WORD =
  /^[^<]{0,16}<\?xml[^>]*>\s*(?:<\?mso-application progid="Word\.Document"\?>\s*)?<(?:\w+:)?wordDocument[\s>]/;
const EXCEL =
  /^[^<]{0,16}<\?xml[^>]*>\s*(?:<\?mso-application progid="Excel\.Sheet"\?>\s*)?<(?:\w+:)?Workbook[\s>]/;

export default documentPlugin({
  name: 'extractor-xml-2003',
  accepts,
  pages: ({ bytes }, bounds) => withSheetJs(() => pagesOf(bytes, bounds)),
});

function headOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, HEAD_BYTES)).toString('latin1');
}

function accepts({ bytes }: SourceDocument): DocumentClaim | null {
  const head = headOf(bytes);
  if (WORD.test(head)) return { fileType: 'application/msword', ground: 'content' };
  return EXCEL.test(head) ? { fileType: 'application/vnd.ms-excel', ground: 'content' } : null;
}

function pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Iterable<DocumentPage> {
  return WORD.test(headOf(bytes)) ? readWordXml(bytes, bounds) : readSheets(bytes, bounds);
}
