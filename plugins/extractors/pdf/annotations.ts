/**
 * Owns the way through the annotations of a page, and what pdfium tells of each: texts and boxes.
 * It must never decide what an annotation is for.
 */
import type { Box } from './areas.js';
import type { Pdfium } from './instance.js';

/** Of a page. */
export const ANNOTATIONS_MAX = 10_000;
const TEXT_BYTES_MAX = 64 * 1024;
const BOX_BYTES = 16;

/** Each is open until the next one is asked for. */
export function* annotationsOf(pdfium: Pdfium, page: number): Generator<number> {
  const count = Math.min(pdfium._FPDFPage_GetAnnotCount(page), ANNOTATIONS_MAX);
  for (let index = 0; index < count; index += 1) {
    const annotation = pdfium._FPDFPage_GetAnnot(page, index);
    if (annotation === 0) continue;
    try {
      yield annotation;
    } finally {
      pdfium._FPDFPage_CloseAnnot(annotation);
    }
  }
}

/** Empty where it is too long. @param tell writes it where it has room, as UTF-16 with an end, and says how many bytes it takes. */
export function toldText(pdfium: Pdfium, tell: (buffer: number, bytes: number) => number): string {
  const bytes = tell(0, 0);
  const at = bytes > 2 && bytes <= TEXT_BYTES_MAX ? pdfium.wasmExports.malloc(bytes) : 0;
  if (at === 0) return '';
  tell(at, bytes);
  const text = Buffer.from(pdfium.HEAPU8.subarray(at, at + bytes - 2)).toString('utf16le');
  pdfium.wasmExports.free(at);
  return text.replace(/\r\n?/g, '\n').trim();
}

/** Null where it has none, and where there is no memory for it. @param tell writes its left, top, right and bottom side, and says 1. */
export function toldBox(pdfium: Pdfium, tell: (at: number) => number): Box | null {
  const at = pdfium.wasmExports.malloc(BOX_BYTES);
  if (at === 0) return null;
  const isTold = tell(at) === 1;
  const sides = new Float32Array(pdfium.HEAPU8.buffer, at, 4);
  const [left = 0, top = 0, right = 0, bottom = 0] = sides;
  pdfium.wasmExports.free(at);
  return isTold ? { left, right, bottom, top } : null;
}

/** What stands under a key of an annotation: a text or a name; empty for anything else. */
export function entryOf(pdfium: Pdfium, annotation: number, name: string): string {
  const key = pdfium.wasmExports.malloc(name.length + 1);
  if (key === 0) return '';
  pdfium.HEAPU8.set(Buffer.from(`${name}\0`, 'latin1'), key);
  const text = toldText(pdfium, (buffer, bytes) =>
    pdfium._FPDFAnnot_GetStringValue(annotation, key, buffer, bytes),
  );
  pdfium.wasmExports.free(key);
  return text;
}
