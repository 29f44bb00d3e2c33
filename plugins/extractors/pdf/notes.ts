/**
 * Owns the comments that readers of a PDF left on its pages: what they say, and who said it.
 * It must never read a link or a form field.
 */
import type { Pdfium } from './instance.js';

/** Subtypes by pdfium's numbers: all that people add, without links, form fields and windows of other notes. */
const commented = new Set([1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]);
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
