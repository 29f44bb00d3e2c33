/**
 * Owns the annotations of a page: the comments that readers left on it, what they say and who said it, and whether it has fields or stamps.
 * It must never read a link, or what is filled into a field.
 */
import type { Pdfium } from './instance.js';

/** Subtypes by pdfium's numbers: all that people add, without links, form fields and windows of other notes. */
const commented = new Set([1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]);
const WIDGET = 20;
const STAMP = 13;
const NOTES_MAX = 10_000;
const NOTE_BYTES_MAX = 64 * 1024;

/** `[Ann] A word on this.` */
export function notesOf(pdfium: Pdfium, page: number): string[] {
  const notes: string[] = [];
  const count = Math.min(pdfium._FPDFPage_GetAnnotCount(page), NOTES_MAX);
  for (let index = 0; index < count; index += 1) {
    const note = pdfium._FPDFPage_GetAnnot(page, index);
    if (note === 0) continue;
    if (commented.has(pdfium._FPDFAnnot_GetSubtype(note))) {
      const text = stringOf(pdfium, note, 'Contents');
      const author = stringOf(pdfium, note, 'T');
      if (text !== '') notes.push(author === '' ? text : `[${author}] ${text}`);
    }
    pdfium._FPDFPage_CloseAnnot(note);
  }
  return notes;
}

/** True for a page on which something may be filled in. */
export function hasWidgets(pdfium: Pdfium, page: number): boolean {
  return hasSubtype(pdfium, page, WIDGET);
}

/** True for a page with drawings that were put on it: they may hold text. */
export function hasStamps(pdfium: Pdfium, page: number): boolean {
  return hasSubtype(pdfium, page, STAMP);
}

function hasSubtype(pdfium: Pdfium, page: number, wanted: number): boolean {
  const count = pdfium._FPDFPage_GetAnnotCount(page);
  // What is so large may hold anything.
  if (count > NOTES_MAX) return true;
  for (let index = 0; index < count; index += 1) {
    const annotation = pdfium._FPDFPage_GetAnnot(page, index);
    if (annotation === 0) continue;
    const subtype = pdfium._FPDFAnnot_GetSubtype(annotation);
    pdfium._FPDFPage_CloseAnnot(annotation);
    if (subtype === wanted) return true;
  }
  return false;
}

function stringOf(pdfium: Pdfium, note: number, name: string): string {
  const key = pdfium.wasmExports.malloc(name.length + 1);
  if (key === 0) return '';
  pdfium.HEAPU8.set(Buffer.from(`${name}\0`, 'latin1'), key);
  const bytes = pdfium._FPDFAnnot_GetStringValue(note, key, 0, 0);
  const at = bytes > 2 && bytes <= NOTE_BYTES_MAX ? pdfium.wasmExports.malloc(bytes) : 0;
  let text = '';
  if (at !== 0) {
    pdfium._FPDFAnnot_GetStringValue(note, key, at, bytes);
    text = Buffer.from(pdfium.HEAPU8.subarray(at, at + bytes - 2)).toString('utf16le');
    pdfium.wasmExports.free(at);
  }
  pdfium.wasmExports.free(key);
  return text.replace(/\r\n?/g, '\n').trim();
}
