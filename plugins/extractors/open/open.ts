/**
 * Owns OpenDocument: texts, spreadsheets, presentations and drawings, packed or as one file of XML.
 * It must never open what a document links to.
 */
import { posix } from 'node:path';
import type { DocumentClaim, ExtractionBounds, SourceDocument } from 'preface/plugin';
import { type MarkupHandler, readXml, walkXml } from '../markup/walk.js';
import type { PagePart, PicturedPage } from '../ocr/picture-texts.js';
import { ignore } from '../office/package.js';
import { Flow } from '../shared/flow.js';
import { picturedPlugin } from '../shared/pictured.js';
import { refusal } from '../shared/refusal.js';
import { OpenBody } from './body.js';
import { OpenLists } from './lists.js';
import { type OpenKind, type OpenParts, openKindOf, openParts, within } from './package.js';
import { OpenSheets } from './sheets.js';

type Attributes = Readonly<Record<string, string>>;

export default picturedPlugin({
  name: 'extractor-open',
  accepts,
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function accepts({ bytes }: SourceDocument, bounds: ExtractionBounds): DocumentClaim | null {
  const kind = openKindOf(bytes, bounds.archiveEntriesMax);
  if (kind === null) return null;
  return { fileType: `application/vnd.oasis.opendocument.${kind}`, ground: 'content' };
}

function pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Iterable<PicturedPage> {
  const kind = openKindOf(bytes, bounds.archiveEntriesMax) ?? 'text';
  const parts = openParts(bytes, bounds);
  if (kind === 'spreadsheet') return sheetsOf(parts, bounds);
  return kind === 'text' ? textOf(parts, bounds) : slidesOf(parts, kind, bounds);
}

function* sheetsOf({ content, title }: OpenParts, bounds: ExtractionBounds) {
  const sheets = new OpenSheets(bounds.textLengthMax);
  for (const _ of walkXml(content, within('body', sheets), bounds.nestingMax)) {
    for (const text of sheets.take()) yield { text, pages: null, unit: 'sheet', title } as const;
  }
  for (const text of sheets.take()) yield { text, pages: null, unit: 'sheet', title } as const;
}

function* textOf(parts: OpenParts, bounds: ExtractionBounds) {
  const { content, styles, title } = parts;
  const flow = new Flow(bounds.textLengthMax);
  const lists = new OpenLists();
  const margins = styles === null ? { header: [], footer: [] } : readStyles(styles, lists, bounds);
  const body = bodyOf(flow, lists, parts, bounds);
  const page = (text: string) =>
    ({ text, pages: null, unit: 'page', title, shown: shownBy(body.body, parts) }) as const;
  for (const line of margins.header) addLine(flow, line);
  for (const _ of walkXml(content, body, bounds.nestingMax)) {
    for (const text of flow.take()) yield page(text);
  }
  for (const line of margins.footer) addLine(flow, line);
  for (const text of flow.end()) yield page(text);
}

/** Pictures that were met since the last call. */
function shownBy(body: OpenBody, { picture }: OpenParts): PagePart[] {
  return body.takePictures().map((reference) => ({
    name: `the picture ${posix.basename(reference)}`,
    bytes: () => picture(reference),
  }));
}

function addLine(flow: Flow, line: string): void {
  flow.gap();
  flow.text(line);
  flow.gap();
}

/** Lists are defined before the body, and in it nothing is. */
function bodyOf(
  flow: Flow,
  lists: OpenLists,
  { object }: OpenParts,
  bounds: ExtractionBounds,
): MarkupHandler & { readonly body: OpenBody } {
  const objects = (reference: string) => objectLines(object(reference), bounds);
  const body = new OpenBody(flow, lists, objects);
  const shown = within('body', body);
  return {
    body,
    open(name, attributes) {
      lists.define(name, attributes);
      shown.open(name, attributes);
    },
    text: (text) => shown.text(text),
    close: (name) => shown.close(name),
  };
}

/** A chart has its titles and the table of its numbers. */
function objectLines(content: Uint8Array | null, bounds: ExtractionBounds): string[] {
  if (content === null) return [];
  const flow = new Flow(bounds.textLengthMax);
  const body = new OpenBody(flow, new OpenLists());
  // A formula has no body around it.
  const isBody = Buffer.from(content.buffer, content.byteOffset, content.length).includes(':body');
  readXml(content, isBody ? within('body', body) : body, bounds.nestingMax);
  return flow
    .end()
    .join('\n')
    .split('\n')
    .filter((line) => line.trim() !== '');
}

/** Headers and footers, each once. */
function readStyles(styles: Uint8Array, lists: OpenLists, bounds: ExtractionBounds) {
  const found = { header: new Set<string>(), footer: new Set<string>() };
  const flow = new Flow(bounds.textLengthMax);
  const body = new OpenBody(flow, new OpenLists());
  let margin: keyof typeof found | null = null;
  const open = (name: string, attributes: Attributes) => {
    if (margin !== null) return body.open(name, attributes);
    lists.define(name, attributes);
    margin = /^header(?:-left|-first)?$/.test(name)
      ? 'header'
      : /^footer(?:-left|-first)?$/.test(name)
        ? 'footer'
        : null;
    if (margin !== null) flow.openBox();
  };
  const close = (name: string) => {
    if (margin === null) return;
    if (!/^(?:header|footer)(?:-left|-first)?$/.test(name)) return body.close(name);
    const text = flow.takeBox();
    if (text !== '') found[margin].add(text);
    margin = null;
  };
  const text = (piece: string) => {
    if (margin !== null) body.text(piece);
  };
  readXml(styles, { open, text, close }, bounds.nestingMax);
  return { header: [...found.header], footer: [...found.footer] };
}

// ------------------------------------------------------------------- slides

function* slidesOf(parts: OpenParts, kind: OpenKind, bounds: ExtractionBounds) {
  const unit = kind === 'presentation' ? 'slide' : 'page';
  const lists = new OpenLists();
  if (parts.styles !== null) {
    const define = (name: string, attributes: Attributes) => lists.define(name, attributes);
    readXml(parts.styles, { open: define, text: ignore, close: ignore }, bounds.nestingMax);
  }
  const reader = bodyOf(new Flow(bounds.textLengthMax), lists, parts, bounds);
  const slides: PicturedPage[] = [];
  let pages = 0;
  const open = (name: string, attributes: Attributes) => {
    if (name === 'page') {
      pages += 1;
      if (pages > bounds.pagesMax) {
        throw refusal('bound', `it has more than ${bounds.pagesMax} ${unit}s`);
      }
      reader.body.flow = new Flow(bounds.textLengthMax);
    }
    reader.open(name, attributes);
  };
  const close = (name: string) => {
    reader.close(name);
    if (name !== 'page') return;
    const text = reader.body.flow.end().join('\n');
    const shown = shownBy(reader.body, parts);
    slides.push({ text, pages: null, unit, title: parts.title, shown });
  };
  const handler = { open, text: (text: string) => reader.text(text), close };
  for (const _ of walkXml(parts.content, handler, bounds.nestingMax)) {
    yield* slides.splice(0);
  }
  yield* slides.splice(0);
}
