/**
 * Owns the text of documents and templates of Word before 2007.
 * It must never show text that a change marks as deleted. Documents within are shown wherever the container has
 * them: whether the text still refers to one is not known here.
 */
import type { DocumentClaim, ExtractionBounds, SourceDocument } from 'preface/plugin';
import type { PagePart, PicturedPage } from '../ocr/picture-texts.js';
import { Flow } from '../shared/flow.js';
import { picturedPlugin } from '../shared/pictured.js';
import { isBound, locked, refusal } from '../shared/refusal.js';
import { blipsIn } from './blips.js';
import { docPictures } from './doc-pictures.js';
import { DocText } from './doc-text.js';
import { claimOle, type OleContainer, openOle, streamOrNull } from './ole.js';
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

export default picturedPlugin({
  name: 'extractor-doc',
  accepts,
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function accepts(document: SourceDocument): DocumentClaim | null {
  return claimOle(document, { fileType, streams: [MAIN], names: /\.do[ct]$/i });
}

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<PicturedPage> {
  const container = openOle(bytes);
  const main = mainStream(container);
  const flow = new Flow(bounds.textLengthMax);
  const shown = writeText(flow, container, main, bounds);
  for (const object of objectsOf(container)) writeObject(flow, object, bounds);
  const title = titleOf(container);
  const pages = flow.end();
  for (const [at, text] of pages.entries()) {
    const isLast = at === pages.length - 1;
    const page = { text, pages: pages.length, unit: 'page', title } as const;
    yield isLast ? { ...page, shown } : page;
  }
}

type Streams = Pick<OleContainer, 'stream'>;

/** The pictures that it shows. */
function writeText(
  flow: Flow,
  container: OleContainer,
  main: Buffer,
  bounds: ExtractionBounds,
): PagePart[] {
  const data = streamOrNull(container, 'Data');
  if (main.readUInt16LE(VERSION) < WORD_97) {
    addLines(flow, textOfWord95(main));
    return blipsIn(main, data);
  }
  const table = tableStream(container, main);
  const text = new DocText(main, table, bounds.textLengthMax);
  text.write(flow);
  return picturesOrNone(() => docPictures({ main, table, data }, text.anchors()));
}

/** A document can do without them. */
function picturesOrNone(read: () => PagePart[]): PagePart[] {
  try {
    return read();
  } catch (cause) {
    if (isBound(cause)) throw cause;
    return [];
  }
}

/** Documents of Word that stand in the document, which shows a picture of each. */
function objectsOf(container: OleContainer): Streams[] {
  return container
    .folders()
    .filter((folder) => folder.startsWith('objectpool/'))
    .sort()
    .filter((folder) => container.has(`${folder}/${MAIN}`))
    .map((folder) => ({ stream: (name: string) => container.stream(`${folder}/${name}`) }));
}

/** A damaged one costs no more than its own text. */
function writeObject(flow: Flow, object: Streams, bounds: ExtractionBounds): void {
  try {
    const main = mainStream(object);
    if (main.readUInt16LE(VERSION) < WORD_97) return;
    new DocText(main, tableStream(object, main), bounds.textLengthMax).write(flow);
  } catch (cause) {
    if (isBound(cause)) throw cause;
  }
}

function tableStream(streams: Streams, main: Buffer): Buffer {
  const second = (main.readUInt16LE(FLAGS) & SECOND_TABLE) !== 0;
  const table = streams.stream(second ? '1Table' : '0Table');
  if (table === null) throw refusal('damaged', 'it is damaged: a part is missing');
  return table;
}

/** @throws a refusal for what cannot be read. */
function mainStream(streams: Streams): Buffer {
  const main = streams.stream(MAIN);
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
