/**
 * Owns the text of documents and templates of Word 97 to 2003, and the one door to their parser.
 * It must never hand that parser a container as it came: a loop in its chains of sectors would never end.
 */
import WordExtractor from 'word-extractor';
import type {
  DocumentClaim,
  DocumentPage,
  ExtractionBounds,
  Extractor,
  ExtractorPlugin,
  SourceDocument,
} from '../src/plugin/contract.js';
import { Flow } from './document/flow.js';
import { locked, orDamaged, refusal } from './document/refusal.js';
import { claimOle, type OleContainer, openOle } from './office/ole.js';
import { decodeCodePage, titleOf } from './office/ole-title.js';
import { writeOle } from './office/sheetjs.js';

const fileType = 'application/msword';
const MAIN = 'WordDocument';
const FLAGS = 0x0a;
const ENCRYPTED = 0x0100;
const VERSION = 0x02;
const WORD_97 = 0x00c1;
const COMPLEX = 0x0004;
const TEXT_START = 0x18;
const TEXT_END = 0x1c;
const HEADER_BYTES = 0x200;

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-doc',
  contract: 1,
  open: async ({ bounds }): Promise<Extractor> => ({
    accepts,
    extract: ({ bytes }) => orDamaged(() => pagesOf(bytes, bounds)),
    close: async () => {},
  }),
};

export default plugin;

function accepts(document: SourceDocument): DocumentClaim | null {
  return claimOle(document, { fileType, streams: [MAIN], names: /\.do[ct]$/i });
}

async function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): AsyncGenerator<DocumentPage> {
  const container = openOle(bytes);
  const main = mainStream(container);
  const flow = new Flow(bounds.textLengthMax);
  const blocks =
    main.readUInt16LE(VERSION) < WORD_97 ? [textOfWord95(main)] : await blocksOf(container, main);
  for (const block of blocks) {
    addLines(flow, block);
    flow.gap();
  }
  const title = titleOf(container);
  for (const text of flow.end()) yield { text, pages: 1, title };
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

/** As the package has it; its published types leave the options out. */
interface WordText {
  getHeaders(options: { filterUnicode: false; includeFooters: false }): string;
  getBody(options: { filterUnicode: false }): string;
  getTextboxes(options: { filterUnicode: false }): string;
  getFootnotes(options: { filterUnicode: false }): string;
  getEndnotes(options: { filterUnicode: false }): string;
  getFooters(options: { filterUnicode: false }): string;
}

async function blocksOf(container: OleContainer, main: Buffer): Promise<string[]> {
  const streams: Record<string, Buffer> = { [MAIN]: main };
  for (const name of ['0Table', '1Table']) {
    const table = container.stream(name);
    if (table !== null) streams[name] = table;
  }
  const text: unknown = await new WordExtractor().extract(writeOle(streams));
  const document = text as WordText;
  const raw = { filterUnicode: false } as const;
  return [
    document.getHeaders({ ...raw, includeFooters: false }),
    document.getBody(raw),
    document.getTextboxes(raw),
    document.getFootnotes(raw),
    document.getEndnotes(raw),
    document.getFooters(raw),
  ];
}

/** Its text lies in one piece, a byte a character, unless it was saved in haste. */
function textOfWord95(main: Buffer): string {
  if ((main.readUInt16LE(FLAGS) & COMPLEX) !== 0) {
    throw refusal(
      'unsupported',
      'it was saved by Word 95 or older in pieces: save it again as docx',
    );
  }
  const bytes = main.subarray(main.readUInt32LE(TEXT_START), main.readUInt32LE(TEXT_END));
  return decodeCodePage(bytes, 1252)
    .replace(/[\r\v\f]/g, '\n')
    .replaceAll('\x07', '\t');
}

/** What a picture or a field leaves in the text is no character of it. */
const MARKS = /(?!\t)[\p{Cc}\ufffc]/gu;

function addLines(flow: Flow, block: string): void {
  for (const line of block.split('\n')) {
    flow.openParagraph();
    flow.text(line.replace(MARKS, ''));
    flow.closeParagraph();
  }
}
