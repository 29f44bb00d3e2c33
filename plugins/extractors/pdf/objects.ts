/**
 * Owns the objects of a page, those in forms among them: where its pictures lie, and hiding its text before it is drawn.
 * It must never unpack a picture.
 */
import type { Box } from './areas.js';
import type { Pdfium } from './instance.js';

export interface PagePicture extends Box {
  /** In pixels. */
  readonly width: number;
  readonly height: number;
}

const TEXT = 1;
const IMAGE = 3;
const FORM = 5;
const INVISIBLE = 3;
const DEPTH_MAX = 8;
/** More are not looked at: a drawing of a million strokes. */
const OBJECTS_MAX = 100_000;

/** a, b, c, d, e, f of PDF. */
type Matrix = readonly [number, number, number, number, number, number];
const SAME: Matrix = [1, 0, 0, 1, 0, 0];

/** @param at 32 bytes of the library's memory. */
export function picturesOf(pdfium: Pdfium, page: number, at: number): PagePicture[] {
  const pictures: PagePicture[] = [];
  for (const { object, type, matrix } of objectsOf(pdfium, page, at)) {
    if (type !== IMAGE) continue;
    pdfium._FPDFPageObj_GetBounds(object, at, at + 4, at + 8, at + 12);
    const [left = 0, bottom = 0, right = 0, top = 0] = new Float32Array(
      pdfium.HEAPU8.buffer,
      at,
      4,
    );
    pdfium._FPDFImageObj_GetImagePixelSize(object, at, at + 4);
    const [width = 0, height = 0] = new Uint32Array(pdfium.HEAPU8.buffer, at, 2);
    pictures.push({ ...moved({ left, bottom, right, top }, matrix), width, height });
  }
  return pictures;
}

/** The page draws no text any more; what is behind it shows. */
export function hideText(pdfium: Pdfium, page: number): void {
  const at = pdfium.wasmExports.malloc(32);
  for (const { object, type } of objectsOf(pdfium, page, at)) {
    if (type === TEXT) pdfium._FPDFTextObj_SetTextRenderMode(object, INVISIBLE);
  }
  pdfium.wasmExports.free(at);
}

interface PlacedObject {
  readonly object: number;
  readonly type: number;
  /** From its coordinates to those of the page. */
  readonly matrix: Matrix;
}

function* objectsOf(pdfium: Pdfium, page: number, at: number): Generator<PlacedObject> {
  let seen = 0;
  function* within(container: number, matrix: Matrix, depth: number): Generator<PlacedObject> {
    const isPage = depth === 0;
    const count = isPage
      ? pdfium._FPDFPage_CountObjects(container)
      : pdfium._FPDFFormObj_CountObjects(container);
    for (let index = 0; index < count && seen < OBJECTS_MAX; index += 1, seen += 1) {
      const object = isPage
        ? pdfium._FPDFPage_GetObject(container, index)
        : pdfium._FPDFFormObj_GetObject(container, index);
      if (object === 0) continue;
      const type = pdfium._FPDFPageObj_GetType(object);
      yield { object, type, matrix };
      if (type !== FORM || depth >= DEPTH_MAX) continue;
      pdfium._FPDFPageObj_GetMatrix(object, at);
      const [a = 1, b = 0, c = 0, d = 1, e = 0, f = 0] = new Float32Array(
        pdfium.HEAPU8.buffer,
        at,
        6,
      );
      yield* within(object, times([a, b, c, d, e, f], matrix), depth + 1);
    }
  }
  yield* within(page, SAME, 0);
}

/** The first is applied first. */
function times([a, b, c, d, e, f]: Matrix, [A, B, C, D, E, F]: Matrix): Matrix {
  return [
    a * A + b * C,
    a * B + b * D,
    c * A + d * C,
    c * B + d * D,
    e * A + f * C + E,
    e * B + f * D + F,
  ];
}

function moved({ left, right, bottom, top }: Box, [a, b, c, d, e, f]: Matrix): Box {
  const corners = [
    [left, bottom],
    [left, top],
    [right, bottom],
    [right, top],
  ].map(([x = 0, y = 0]) => [a * x + c * y + e, b * x + d * y + f] as const);
  const xs = corners.map(([x]) => x);
  const ys = corners.map(([, y]) => y);
  return {
    left: Math.min(...xs),
    right: Math.max(...xs),
    bottom: Math.min(...ys),
    top: Math.max(...ys),
  };
}
