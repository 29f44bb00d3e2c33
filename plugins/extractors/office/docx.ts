/**
 * Owns the text of documents of Word 2007 and later, templates and macro documents among them.
 * It must never fetch or open what a document links to.
 */
import type { DocumentPage, ExtractionBounds } from 'preface/plugin';
import { attribute, readXml, walkXml } from '../markup/walk.js';
import { Flow } from '../shared/flow.js';
import { documentPlugin } from '../shared/plugin.js';
import { DocxBody } from './docx-body.js';
import { DocxLists } from './docx-lists.js';
import { claimPackage, OfficePackage, type PackageKind, type Relation } from './package.js';

const kind: PackageKind = {
  fileType: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  mainPart: /wordprocessingml\.(?:document|template)\.main|ms-word\.(?:document|template)\.macro/,
  names: /\.do[ct][xm]?$/i,
};

export default documentPlugin({
  name: 'extractor-docx',
  accepts: (document, bounds) => claimPackage(document, kind, bounds),
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<DocumentPage> {
  const office = new OfficePackage(bytes, bounds);
  const title = office.title();
  const main = office.main();
  const parts = partsByType([...office.relations(main.name).values()]);
  const lists = new DocxLists(
    office.part(parts('styles')[0]),
    office.part(parts('numbering')[0]),
    bounds.nestingMax,
  );
  const flow = new Flow(bounds.textLengthMax);
  const notes = new Map([
    ...notesOf(office.part(parts('footnotes')[0]), 'footnote', bounds),
    ...notesOf(office.part(parts('endnotes')[0]), 'endnote', bounds),
  ]);
  const body = () => new DocxBody(flow, lists, notes);
  readMargins(parts('header'));
  for (const _ of walkXml(main.bytes, body(), bounds.nestingMax)) {
    for (const text of flow.take()) yield { text, pages: null, title };
  }
  readMargins(parts('footer'));
  for (const text of flow.end()) yield { text, pages: null, title };

  /** Headers and footers appear once, not on every page. */
  function readMargins(names: readonly string[]): void {
    const said = new Set<string>();
    for (const name of names) {
      const part = office.part(name);
      if (part === null) continue;
      const text = textOf(part, bounds);
      if (text === '' || said.has(text)) continue;
      said.add(text);
      flow.gap();
      readXml(part, body(), bounds.nestingMax);
      flow.gap();
    }
  }
}

function partsByType(relations: readonly Relation[]): (type: string) => string[] {
  return (type) => relations.filter((each) => each.type === type).map(({ part }) => part);
}

function textOf(part: Uint8Array, bounds: ExtractionBounds): string {
  const flow = new Flow(bounds.textLengthMax);
  const lists = new DocxLists(null, null, bounds.nestingMax);
  readXml(part, new DocxBody(flow, lists, new Map()), bounds.nestingMax);
  return flow.end().join(' ').replace(/\s+/g, ' ').trim();
}

/** By the name of the reference to it and its id. */
function notesOf(
  part: Uint8Array | null,
  element: 'footnote' | 'endnote',
  bounds: ExtractionBounds,
): Map<string, string> {
  const notes = new Map<string, string>();
  if (part === null) return notes;
  const flow = new Flow(bounds.textLengthMax);
  const lists = new DocxLists(null, null, bounds.nestingMax);
  const body = new DocxBody(flow, lists, new Map());
  let id = '';
  const open = (name: string, attributes: Readonly<Record<string, string>>) => {
    if (name !== element) return body.open(name, attributes);
    id = attribute(attributes, 'id') ?? '';
    flow.openBox();
  };
  const close = (name: string) => {
    if (name !== element) return body.close(name);
    notes.set(`${element}Reference${id}`, flow.takeBox());
  };
  readXml(part, { open, text: (text) => body.text(text), close }, bounds.nestingMax);
  return notes;
}
