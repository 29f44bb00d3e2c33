/**
 * Owns the characters that the library finds on a page: what they are, where they lie, and in which order they are read.
 * It must never decide which letter a code means.
 */
import type { Pdfium } from './instance.js';
import type { CharFont, PageChar } from './page-char.js';
import { inOrderOf, turnsOutOfOrder, uprightBy } from './reading-order.js';
import { turnOf } from './turns.js';

const SPACE = 0x20;
const FONT_NAME_BYTES_MAX = 256;
/** Of a font whose name is too long to be told. */
const NO_NAME = '?';

/** In the library's order. @param text of a page, as the library has opened it. */
export function charactersOf(pdfium: Pdfium, text: number): readonly PageChar[] {
  const bare = pdfium.wasmExports;
  const count = pdfium._FPDFText_CountChars(text);
  const rect = allocate(pdfium, 16);
  let heap = pdfium.HEAPU8;
  let box = new Float32Array(heap.buffer, rect, 4);
  const fonts = new Map<number, CharFont>();
  const chars: PageChar[] = [];
  for (let i = 0; i < count; i += 1) {
    const code = bare.FPDFText_GetUnicode(text, i);
    const isUnmapped = bare.FPDFText_HasUnicodeMapError(text, i) === 1;
    // Most calls would be for spaces and line ends, whose positions are not needed.
    if (code > SPACE || isUnmapped) bare.FPDFText_GetLooseCharBox(text, i, rect);
    // The heap moves when it grows.
    if (heap !== pdfium.HEAPU8) {
      heap = pdfium.HEAPU8;
      box = new Float32Array(heap.buffer, rect, 4);
    }
    const { 0: left = 0, 1: top = 0, 2: right = 0, 3: bottom = 0 } = box;
    const isGuess = code === SPACE && bare.FPDFText_IsGenerated(text, i) === 1;
    const font = isUnmapped ? fontOf(pdfium, text, i, fonts) : undefined;
    const turn = code > SPACE ? turnOf(bare.FPDFText_GetCharAngle(text, i)) : undefined;
    // All alike: a page has thousands of them.
    chars.push({ code, isGuess, isUnmapped, font, turn, left, right, bottom, top });
  }
  pdfium.wasmExports.free(rect);
  return chars;
}

/** In the library's order; none for a page whose text cannot be opened. */
export function charactersOfPage(pdfium: Pdfium, page: number): readonly PageChar[] {
  const text = pdfium._FPDFText_LoadPage(page);
  if (text === 0) return [];
  const chars = charactersOf(pdfium, text);
  pdfium._FPDFText_ClosePage(text);
  return chars;
}

/**
 * The library sorts what stands side by side on the page from left to right, lines that run downwards among them: where one comes in
 * a wrong order the page is turned and read again.
 */
export function inReadingOrder(
  pdfium: Pdfium,
  page: number,
  chars: readonly PageChar[],
): readonly PageChar[] {
  const rotation = pdfium._FPDFPage_GetRotation(page);
  let ordered = chars;
  for (const turn of turnsOutOfOrder(chars, rotation)) {
    pdfium._FPDFPage_SetRotation(page, uprightBy(turn));
    ordered = inOrderOf(ordered, turn, charactersOfPage(pdfium, page));
    pdfium._FPDFPage_SetRotation(page, rotation);
  }
  return ordered;
}

function fontOf(
  pdfium: Pdfium,
  text: number,
  index: number,
  known: Map<number, CharFont>,
): CharFont | undefined {
  const object = pdfium._FPDFText_GetTextObject(text, index);
  const id = object === 0 ? 0 : pdfium._FPDFTextObj_GetFont(object);
  if (id === 0 || known.has(id)) return known.get(id);
  const at = allocate(pdfium, FONT_NAME_BYTES_MAX);
  const bytes = pdfium._FPDFFont_GetBaseFontName(id, at, FONT_NAME_BYTES_MAX);
  const name = bytes > FONT_NAME_BYTES_MAX ? NO_NAME : latin1(pdfium, at, bytes - 1);
  pdfium.wasmExports.free(at);
  const font = { id, name };
  known.set(id, font);
  return font;
}

function latin1({ HEAPU8 }: Pdfium, at: number, bytes: number): string {
  return Buffer.from(HEAPU8.subarray(at, at + Math.max(0, bytes))).toString('latin1');
}

function allocate(pdfium: Pdfium, bytes: number): number {
  const at = pdfium.wasmExports.malloc(bytes);
  if (at !== 0) return at;
  const message = 'the document takes more memory than its reader has';
  throw Object.assign(new Error(message), { code: 'bound' });
}
