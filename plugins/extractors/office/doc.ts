/**
 * Owns the text of documents and templates of Word before 2007.
 * It must never show what a document deleted but kept.
 */
import type { DocumentClaim, DocumentPage, ExtractionBounds, SourceDocument } from 'preface/plugin';
import { Flow } from '../shared/flow.js';
import { documentPlugin } from '../shared/plugin.js';
import { locked, refusal } from '../shared/refusal.js';
import { DocText } from './doc-text.js';
import { claimOle, type OleContainer, openOle } from './ole.js';
import { titleOf } from './ole-title.js';
import { textOfWord95 } from './word95.js';

const fileType = 'application/msword';
const MAIN = 'WordDocument';
const FLAGS = 0x0a;
const ENCRYPTED = 0x0100;
const VERSION = 0x02;
const WORD_97 = 0x00c1;
const SECOND_TABLE = 0x0200;
const HEADER_BYTES = 0x200;

export default documentPlugin({
  name: 'extractor-doc',
  accepts,
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function accepts(document: SourceDocument): DocumentClaim | null {
  return claimOle(document, { fileType, streams: [MAIN], names: /\.do[ct]$/i });
}

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<DocumentPage> {
  const container = openOle(bytes);
  const main = mainStream(container);
  const flow = new Flow(bounds.textLengthMax);
  if (main.readUInt16LE(VERSION) < WORD_97) addLines(flow, textOfWord95(main));
  else new DocText(main, tableStream(container, main), bounds.textLengthMax).write(flow);
  const title = titleOf(container);
  const pages = flow.end();
  for (const text of pages) yield { text, pages: pages.length, unit: 'page', title };
}

function tableStream(container: OleContainer, main: Buffer): Buffer {
  const second = (main.readUInt16LE(FLAGS) & SECOND_TABLE) !== 0;
  const table = container.stream(second ? '1Table' : '0Table');
  if (table === null) throw refusal('damaged', 'it is damaged: a part is missing');
  return table;
}

/** @throws a refusal for what cannot be read. */
function mainStream(container: OleContainer): Buffer {
  const main = container.stream(MAIN);
  if (main === null || main.length < HEADER_BYTES) {
    throw refusal('damaged', 'it is damaged: it is cut off');
  }
  if ((main.readUInt16LE(FLAGS) & ENCRYPTED) !== 0) throw locked();
  return main;
}

/** Marks of pictures and fields are not characters of the text. */
const MARKS = /(?!\t)[\p{Cc}\ufffc]/gu;

function addLines(flow: Flow, block: string): void {
  for (const line of block.split('\n')) {
    flow.openParagraph();
    flow.text(line.replace(MARKS, ''));
    flow.closeParagraph();
  }
}
