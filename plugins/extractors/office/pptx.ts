/**
 * Owns the text of presentations of PowerPoint 2007 and later: a page a slide, with its notes.
 * It must never take slides in the order of their file names: the presentation says which comes when.
 */
import type { DocumentPage, ExtractionBounds } from 'preface/plugin';
import { attribute, readXml } from '../markup/walk.js';
import { documentPlugin } from '../shared/plugin.js';
import { refusal } from '../shared/refusal.js';
import { claimPackage, ignore, OfficePackage, type PackageKind } from './package.js';
import { readSlide } from './pptx-slide.js';

const kind: PackageKind = {
  fileType: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  mainPart:
    /presentationml\.(?:presentation|slideshow|template)\.main|ms-powerpoint\.(?:presentation|slideshow|template)\.macro/,
  names: /\.(?:ppt|pps|pot)[xm]?$/i,
};

export default documentPlugin({
  name: 'extractor-pptx',
  accepts: (document, bounds) => claimPackage(document, kind, bounds),
  pages: ({ bytes }, bounds) => pagesOf(bytes, bounds),
});

function* pagesOf(bytes: Uint8Array, bounds: ExtractionBounds): Generator<DocumentPage> {
  const office = new OfficePackage(bytes, bounds);
  const main = office.main();
  const relations = office.relations(main.name);
  const slides = slideIds(main.bytes, bounds.nestingMax).flatMap((id) => relations.get(id) ?? []);
  if (slides.length > bounds.pagesMax) {
    throw refusal('bound', `it has more than ${bounds.pagesMax} slides`);
  }
  const title = office.title();
  for (const { part } of slides) {
    yield { text: textOf(office, part, bounds), pages: slides.length, title };
  }
}

function slideIds(presentation: Uint8Array, depthMax: number): string[] {
  const ids: string[] = [];
  const open = (name: string, attributes: Readonly<Record<string, string>>) => {
    // The element has an id of its own beside that of the relation.
    if (name === 'sldId') ids.push(relationId(attributes));
  };
  readXml(presentation, { open, text: ignore, close: ignore }, depthMax);
  return ids;
}

function relationId(attributes: Readonly<Record<string, string>>): string {
  const key = Object.keys(attributes).find((name) => name.endsWith(':id'));
  return (key === undefined ? attribute(attributes, 'id') : attributes[key]) ?? '';
}

function textOf(office: OfficePackage, name: string, bounds: ExtractionBounds): string {
  const part = office.part(name);
  if (part === null) return '';
  const read = (bytes: Uint8Array) => readSlide(bytes, bounds.textLengthMax, bounds.nestingMax);
  const relations = office.relations(name);
  const slide = read(part);
  const blocks = [slide.title === '' ? '' : `# ${slide.title}`, slide.body];
  for (const id of slide.diagrams) {
    const diagram = office.part(relations.get(id)?.part);
    if (diagram !== null) blocks.push(read(diagram).body);
  }
  const notes = [...relations.values()].find(({ type }) => type === 'notesSlide');
  const notesPart = office.part(notes?.part);
  const said = notesPart === null ? '' : read(notesPart).body;
  if (said !== '') blocks.push(`Notes: ${said}`);
  return blocks.filter((block) => block !== '').join('\n\n');
}
