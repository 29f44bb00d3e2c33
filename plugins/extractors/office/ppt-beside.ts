/**
 * Owns what a slide of PowerPoint 97 to 2003 keeps beside its shapes: its footer, and its comments with their authors.
 * It must never show a margin that the presentation switches off.
 */
import { type Comment, commentLine } from './comments.js';
import { type PptRecord, recordsOf } from './ppt-records.js';

const MARGINS = 0x0fd9;
const MARGINS_ATOM = 0x0fda;
const STRING = 0x0fba;
const TAGS = 0x1388;
const BINARY_TAG = 0x138a;
const BINARY_DATA = 0x138b;
const COMMENT = 0x2ee0;
/** Of a string in a comment. */
const AUTHOR = 0;
const TEXT = 1;
/** Numbers of the strings of a margin, and the bits that show them. */
const HEADER = { string: 1, shown: 0x10 };
const FOOTER = { string: 2, shown: 0x20 };
/** Where the presentation keeps the margins of slides and notes that have none of their own. */
export const SLIDE_MARGINS = 3;
export const NOTES_MARGINS = 4;

/** Header and footer of a slide or a page of notes, its own or those of the presentation. */
export function marginsOf(page: PptRecord | null, document: PptRecord, instance: number): string[] {
  const own = [...(page?.children() ?? [])].find(({ type }) => type === MARGINS);
  const shared = () =>
    [...document.children()].find((each) => each.type === MARGINS && each.instance === instance);
  const parts = [...((own ?? shared())?.children() ?? [])];
  const atom = parts.find(({ type, data }) => type === MARGINS_ATOM && data.length >= 4);
  const flags = atom?.data.readUInt8(2) ?? 0;
  return [HEADER, FOOTER].flatMap(({ string, shown }) => {
    const text = (flags & shown) === 0 ? '' : stringOf(parts, string);
    return text === '' ? [] : [text];
  });
}

/** Comments lie in a tag of the slide, as records within its bytes. */
export function commentsOf(slide: PptRecord): string[] {
  return childrenOf(slide, TAGS)
    .flatMap((tags) => childrenOf(tags, BINARY_TAG))
    .flatMap((tag) => childrenOf(tag, BINARY_DATA))
    .flatMap(({ data }) => [...recordsOf(data)].filter(({ type }) => type === COMMENT))
    .map(commentOf)
    .filter(({ text }) => text !== '')
    .map(commentLine);
}

function commentOf(record: PptRecord): Comment {
  const parts = [...record.children()];
  const text = stringOf(parts, TEXT).replace(/\s+/g, ' ');
  return { author: stringOf(parts, AUTHOR), cell: '', text };
}

function childrenOf(record: PptRecord, wanted: number): PptRecord[] {
  return [...record.children()].filter(({ type }) => type === wanted);
}

function stringOf(parts: readonly PptRecord[], instance: number): string {
  const found = parts.find((each) => each.type === STRING && each.instance === instance);
  return (
    found?.data
      .toString('utf16le')
      .replace(/\p{Cc}+/gu, ' ')
      .trim() ?? ''
  );
}
