/**
 * Owns the text of presentations of PowerPoint 97 to 2003: a page a slide, with its notes.
 * It must never show slides that were deleted: a presentation keeps them until it is saved anew.
 */
import type { ExtractionBounds } from 'preface/plugin';
import type { PicturedPage } from '../ocr/picture-texts.js';
import { picturedPlugin } from '../shared/pictured.js';
import { refusal } from '../shared/refusal.js';
import { claimOle, openOle, streamOrNull } from './ole.js';
import { titleOf } from './ole-title.js';
import { commentsOf, marginsOf, NOTES_MARGINS, SLIDE_MARGINS } from './ppt-beside.js';
import { PptPictures } from './ppt-pictures.js';
import { openPresentation, type PptRecord, type Presentation } from './ppt-records.js';

const kind = {
  fileType: 'application/vnd.ms-powerpoint',
  streams: ['PowerPoint Document'],
  names: /\.(?:ppt|pps|pot)$/i,
};

export default picturedPlugin({
  name: 'extractor-ppt',
  accepts: (document) => claimOle(document, kind),
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

const SLIDE_ATOM = 0x03ef;
const NOTES_ATOM = 0x03f1;
const SLIDE_LIST = 0x0ff0;
const SLIDE_PERSIST = 0x03f3;
const TEXT_HEADER = 0x0f9f;
const TEXT_CHARS = 0x0fa0;
const TEXT_BYTES = 0x0fa8;
const OUTLINE_REF = 0x0f9e;
const SLIDES = 0;
const NOTES = 2;
const TITLES = new Set([0, 6]);

interface Block {
  readonly title: boolean;
  readonly text: string;
}

interface SlideRef {
  readonly id: number;
  readonly persist: number;
  /** Texts of its placeholders, which its shapes refer to by number. */
  readonly outline: readonly Block[];
}

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<PicturedPage> {
  const container = openOle(bytes);
  const presentation = openPresentation(container);
  const slides = slidesOf(presentation.document, SLIDES);
  const notes = notesById(presentation, bounds);
  if (slides.length > bounds.pagesMax) {
    throw refusal('bound', `it has more than ${bounds.pagesMax} slides`);
  }
  const title = titleOf(container);
  const pictures = new PptPictures(presentation.document, streamOrNull(container, 'Pictures'));
  for (const slide of slides) {
    const text = slideText(presentation, slide, notes, bounds);
    const record = presentation.persisted(slide.persist);
    const shown = record === null ? [] : pictures.shownBy(record, bounds.nestingMax);
    yield { text, pages: slides.length, title, shown };
  }
}

function slideText(
  presentation: Presentation,
  slide: SlideRef,
  notes: ReadonlyMap<number, string>,
  bounds: ExtractionBounds,
): string {
  const record = presentation.persisted(slide.persist);
  const shown = record === null ? [] : blocksOf(record, slide.outline, bounds.nestingMax);
  // Older writers leave the shapes without a reference to the outline's text.
  const blocks = [...slide.outline.filter((block) => !shown.includes(block)), ...shown];
  const lines = [
    ...blocks.filter(({ title }) => title).map(({ text }) => `# ${text.replace(/\s+/g, ' ')}\n`),
    ...blocks.filter(({ title }) => !title).map(({ text }) => text),
  ];
  lines.push(...marginsOf(record, presentation.document, SLIDE_MARGINS));
  const said = notes.get(slide.id);
  if (said !== undefined && said !== '') lines.push(`\nNotes: ${said}`);
  const comments = record === null ? [] : commentsOf(record);
  if (comments.length > 0) lines.push('', ...comments);
  return lines.join('\n');
}

/** Notes say which slide they belong to. */
function notesById(presentation: Presentation, bounds: ExtractionBounds): Map<number, string> {
  const notes = new Map<number, string>();
  for (const { persist, outline } of slidesOf(presentation.document, NOTES)) {
    const record = presentation.persisted(persist);
    if (record === null) continue;
    const atom = [...record.children()].find(({ type }) => type === NOTES_ATOM);
    const slide = atom === undefined || atom.data.length < 4 ? 0 : atom.data.readUInt32LE(0);
    const blocks = blocksOf(record, outline, bounds.nestingMax);
    const margins = marginsOf(record, presentation.document, NOTES_MARGINS);
    notes.set(slide, [...blocks.map(({ text }) => text), ...margins].join('\n'));
  }
  return notes;
}

function slidesOf(document: PptRecord, instance: number): SlideRef[] {
  const slides: (SlideRef & { outline: Block[] })[] = [];
  for (const list of document.children()) {
    if (list.type !== SLIDE_LIST || list.instance !== instance) continue;
    let title = false;
    for (const { type, data } of list.children()) {
      if (type === SLIDE_PERSIST) {
        slides.push({ persist: data.readUInt32LE(0), id: data.readUInt32LE(12), outline: [] });
      } else if (type === TEXT_HEADER) title = TITLES.has(data.readUInt32LE(0));
      const text = textOf(type, data);
      if (text !== null) slides.at(-1)?.outline.push({ title, text });
    }
  }
  return slides;
}

/** In the order of the shapes, those of groups among them. */
function blocksOf(record: PptRecord, outline: readonly Block[], depthMax: number): Block[] {
  const blocks: Block[] = [];
  let title = false;
  const walk = (each: PptRecord, depth: number) => {
    if (depth > depthMax)
      throw refusal('bound', `its shapes are nested more than ${depthMax} deep`);
    const { type, data } = each;
    if (type === TEXT_HEADER) title = TITLES.has(data.readUInt32LE(0));
    const text = textOf(type, data);
    if (text !== null) blocks.push({ title, text });
    const block = type === OUTLINE_REF ? outline[data.readUInt32LE(0)] : undefined;
    if (block !== undefined) blocks.push(block);
    for (const child of each.children()) walk(child, depth + 1);
  };
  for (const child of record.children()) if (child.type !== SLIDE_ATOM) walk(child, 1);
  return blocks.filter(({ text }) => text !== '' && text !== '*');
}

/** @returns null for a record that holds no text. */
function textOf(type: number, data: Buffer): string | null {
  if (type !== TEXT_CHARS && type !== TEXT_BYTES) return null;
  const text = data.toString(type === TEXT_CHARS ? 'utf16le' : 'latin1');
  return text
    .replace(/[\r\v]/g, '\n')
    .replace(/(?![\n\t])\p{Cc}/gu, '')
    .trim();
}
