/**
 * Owns the packages of OpenDocument: which kind of document one holds, and its parts.
 * It must never follow a reference out of the package.
 */
import { posix } from 'node:path';
import type { ExtractionBounds } from 'preface/plugin';
import { type MarkupHandler, readXml } from '../markup/walk.js';
import { isZip } from '../office/package.js';
import { locked, refusal } from '../shared/refusal.js';
import { ZipArchive } from '../shared/zip.js';

export type OpenKind = 'text' | 'spreadsheet' | 'presentation' | 'graphics';

const TYPE =
  /^application\/vnd\.(?:oasis\.opendocument\.|sun\.xml\.)(text|spreadsheet|presentation|graphics|writer|calc|impress|draw)/;
const older: Readonly<Record<string, OpenKind>> = {
  writer: 'text',
  calc: 'spreadsheet',
  impress: 'presentation',
  draw: 'graphics',
};
const TYPE_BYTES_MAX = 200;
const HEAD_BYTES = 4096;

function kindOfType(type: string): OpenKind | null {
  const word = TYPE.exec(type)?.[1];
  return word === undefined ? null : (older[word] ?? (word as OpenKind));
}

/** An entry of a package, as a rule the first, names its type; the root of a flat document does. */
export function openKindOf(bytes: Uint8Array, entriesMax: number): OpenKind | null {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES)).toString('latin1');
  if (isZip(bytes)) {
    const first = head.startsWith('mimetype', 30)
      ? kindOfType(head.slice(38, 38 + TYPE_BYTES_MAX))
      : null;
    return first ?? typeWithin(bytes, entriesMax);
  }
  const root = /<office:document\s[^>]{0,4000}?\boffice:mimetype="([^"]{1,200})"/.exec(head)?.[1];
  return root === undefined ? null : kindOfType(root);
}

function typeWithin(bytes: Uint8Array, entriesMax: number): OpenKind | null {
  try {
    const archive = new ZipArchive(bytes, entriesMax);
    if (archive.sizeOf('mimetype') > TYPE_BYTES_MAX) return null;
    return kindOfType(archive.read('mimetype')?.toString('latin1') ?? '');
  } catch {
    return null;
  }
}

export interface OpenParts {
  readonly content: Uint8Array;
  /** Null in a flat document: its content has them. */
  readonly styles: Uint8Array | null;
  readonly title: string;
  /** The content of an object within, such as a chart. */
  readonly object: (reference: string) => Uint8Array | null;
  readonly picture: (reference: string) => Uint8Array | null;
}

/** @throws a refusal. */
export function openParts(bytes: Uint8Array, bounds: ExtractionBounds): OpenParts {
  if (!isZip(bytes)) {
    const title = titleOf(bytes, bounds);
    return { content: bytes, styles: null, title, object: () => null, picture: () => null };
  }
  const archive = new ZipArchive(bytes, bounds.archiveEntriesMax);
  archive.check(bounds);
  const manifest = archive.read('META-INF/manifest.xml');
  if (manifest?.includes('encryption-data') === true) throw locked();
  const content = archive.read('content.xml');
  if (content === null) throw refusal('damaged', 'it is damaged: its content is missing');
  const meta = archive.read('meta.xml');
  return {
    content,
    styles: archive.read('styles.xml'),
    title: meta === null ? '' : titleOf(meta, bounds),
    object: (reference) =>
      archive.read(posix.join('/', reference.replace(/#.*/, ''), 'content.xml').slice(1)),
    picture: (reference) => archive.read(posix.join('/', reference).slice(1)),
  };
}

/** Of the description, which a flat document has among the rest. */
function titleOf(meta: Uint8Array, { nestingMax }: ExtractionBounds): string {
  let [title, inTitle] = ['', false];
  const collect: MarkupHandler = {
    open: (name) => {
      inTitle = name === 'title';
    },
    text: (text) => {
      if (inTitle && title.length < TITLE_LENGTH_MAX) title += text;
    },
    close: () => {
      inTitle = false;
    },
  };
  readXml(meta, within('meta', collect), nestingMax);
  return title.trim();
}

const TITLE_LENGTH_MAX = 1000;

/** Hands on what lies within elements of one name. */
export function within(element: string, handler: MarkupHandler): MarkupHandler {
  let depth = 0;
  return {
    open(name, attributes) {
      if (depth > 0) handler.open(name, attributes);
      if (depth > 0 || name === element) depth += 1;
    },
    text(text) {
      if (depth > 0) handler.text(text);
    },
    close(name) {
      if (depth > 1) handler.close(name);
      if (depth > 0) depth -= 1;
    },
  };
}
