/**
 * Owns the comments that readers left on a page: what they say and who said it, and whether fields or stamps are drawn on it.
 * It must never read a link, or what is filled into a field.
 */
import { ANNOTATIONS_MAX, annotationsOf, entryOf } from './annotations.js';
import type { Pdfium } from './instance.js';

/** Subtypes by pdfium's numbers: all that people add, without links, form fields and windows of other notes. */
const commented = new Set([1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]);
const WIDGET = 20;
const STAMP = 13;

/** `[Ann] A word on this.` */
export function notesOf(pdfium: Pdfium, page: number): string[] {
  const notes: string[] = [];
  for (const note of annotationsOf(pdfium, page)) {
    if (!commented.has(pdfium._FPDFAnnot_GetSubtype(note))) continue;
    const text = entryOf(pdfium, note, 'Contents');
    const author = entryOf(pdfium, note, 'T');
    if (text !== '') notes.push(author === '' ? text : `[${author}] ${text}`);
  }
  return notes;
}

/** True for a page with fields, in which something may stand, or with stamps, which may hold text. */
export function isDrawnOn(pdfium: Pdfium, page: number): boolean {
  // What is so large may hold anything.
  if (pdfium._FPDFPage_GetAnnotCount(page) > ANNOTATIONS_MAX) return true;
  for (const annotation of annotationsOf(pdfium, page)) {
    const subtype = pdfium._FPDFAnnot_GetSubtype(annotation);
    if (subtype === WIDGET || subtype === STAMP) return true;
  }
  return false;
}
