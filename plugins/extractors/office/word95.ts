/**
 * Owns the text of documents of Word 6 and 95: single bytes in one piece or several, and which encoding they have.
 * It must never read a piece beyond the bytes of the document.
 */
import { codePageOf } from '../rtf/code-pages.js';
import { decodeCodePage } from '../shared/decoder.js';
import { refusal } from '../shared/refusal.js';

const FLAGS = 0x0a;
const COMPLEX = 0x0004;
const CHARACTERS = 0x14;
const TEXT_START = 0x18;
const TEXT_END = 0x1c;
const FONTS = 0xd0;
const PIECES = 0x160;

const MACINTOSH = 0x100;
const MACINTOSH_PAGE = 10_000;
const LATIN_PAGE = 1252;
/** Sets of characters of fonts: Western, the default one, symbols. They name no encoding. */
const NAMELESS = new Set([0, 1, 2]);
/** Encodings whose letters are all beyond ASCII, or nearly: a text with few such bytes has another one. */
const FOREIGN = new Set([874, 932, 936, 949, 950, 1251, 1253, 1255, 1256]);
const FOREIGN_SHARE_MIN = 0.25;

export function textOfWord95(main: Buffer): string {
  const isWhole = (main.readUInt16LE(FLAGS) & COMPLEX) === 0;
  const bytes = isWhole
    ? main.subarray(main.readUInt32LE(TEXT_START), main.readUInt32LE(TEXT_END))
    : Buffer.concat(pieces(main));
  return decodeCodePage(bytes, codePage(main, bytes))
    .replace(/[\r\v\f]/g, '\n')
    .replaceAll('\x07', '\t');
}

/** A document names no encoding but that of a Macintosh. Its fonts do: `Times New Roman Cyr`. */
function codePage(main: Buffer, bytes: Buffer): number {
  if (main.readUInt16LE(CHARACTERS) === MACINTOSH) return MACINTOSH_PAGE;
  const charsets = [...charsetsOfFonts(main)];
  const named = charsets.find((charset) => !NAMELESS.has(charset));
  const page = named === undefined ? null : codePageOf(named);
  if (page === null) return LATIN_PAGE;
  if (FOREIGN.has(page)) return foreignShare(bytes) < FOREIGN_SHARE_MIN ? LATIN_PAGE : page;
  // Among encodings of Latin letters nothing tells them apart, so that of the first font counts.
  return charsets[0] === named ? page : LATIN_PAGE;
}

function* charsetsOfFonts(main: Buffer): Generator<number> {
  const start = main.readUInt32LE(FONTS);
  const end = Math.min(start + main.readUInt32LE(FONTS + 4), main.length);
  for (let at = start + 2; at + 4 < end; at += main.readUInt8(at) + 1) {
    yield main.readUInt8(at + 4);
  }
}

/** Of the bytes that are no blanks, digits or marks. */
function foreignShare(bytes: Buffer): number {
  let [foreign, letters] = [0, 0];
  for (const byte of bytes) {
    const lower = byte | 0x20;
    if (byte >= 0x80) foreign += 1;
    if (byte >= 0x80 || (lower >= 0x61 && lower <= 0x7a)) letters += 1;
  }
  return letters === 0 ? 0 : foreign / letters;
}

/** In order. Records with the formats of pieces come before their list. */
function pieces(main: Buffer): Buffer[] {
  let place = main.readUInt32LE(PIECES);
  while (main.readUInt8(place) === 1) place += 3 + main.readUInt16LE(place + 1);
  if (main.readUInt8(place) !== 2) {
    throw refusal('damaged', 'it is damaged: its text is not listed');
  }
  const count = Math.floor((main.readUInt32LE(place + 1) - 4) / 12);
  const positions = place + 5;
  const found: Buffer[] = [];
  let left = main.length;
  for (let index = 0; index < count; index++) {
    const at = main.readUInt32LE(positions + index * 4);
    const length = main.readUInt32LE(positions + index * 4 + 4) - at;
    const start = main.readUInt32LE(positions + (count + 1) * 4 + index * 8 + 2);
    // Pieces do not overlap in a sound document.
    if (length < 0 || length > left) {
      throw refusal('damaged', 'it is damaged: its text is not listed');
    }
    left -= length;
    found.push(main.subarray(start, start + length));
  }
  return found;
}
