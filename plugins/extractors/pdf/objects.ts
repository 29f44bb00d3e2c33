/**
 * Owns the objects of a page, those in forms among them: where its pictures and its rules lie, and hiding its text before it is drawn.
 * It must never unpack a picture.
 */
import type { Box } from './areas.js';
import type { Pdfium } from './instance.js';
import { NO_RULES, type PageRules, type Rule, type Rules } from './tables.js';

export interface PagePicture extends Box {
  /** In pixels. */
  readonly width: number;
  readonly height: number;
}

const TEXT = 1;
const PATH = 2;
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
    const box = boundsOf(pdfium, object, at, matrix);
    pdfium._FPDFImageObj_GetImagePixelSize(object, at, at + 4);
    const [width = 0, height = 0] = new Uint32Array(pdfium.HEAPU8.buffer, at, 2);
    pictures.push({ ...box, width, height });
  }
  return pictures;
}

/** A line of more points is a rectangle. */
const RULE_WIDTH_MAX = 4;
/** A shorter one is a part of a letter or of a sign. */
const RULE_LENGTH_MIN = 6;
/** Of points between lines. A path of more is a drawing. */
const SEGMENTS_MAX = 2_000;
/** A page with more paths is one, and so is one with more points. */
const PATHS_MAX = 10_000;
const POINTS_MAX = 40_000;
const MOVE_TO = 2;
const LINE_TO = 0;

class RuleList implements Rules {
  readonly across: Rule[] = [];
  readonly upright: Rule[] = [];

  add(x0: number, y0: number, x1: number, y1: number): void {
    const [width, height] = [Math.abs(x1 - x0), Math.abs(y1 - y0)];
    if (height <= RULE_WIDTH_MAX && width >= RULE_LENGTH_MIN && width > height)
      this.across.push({ at: (y0 + y1) / 2, from: Math.min(x0, x1), to: Math.max(x0, x1) });
    else if (width <= RULE_WIDTH_MAX && height >= RULE_LENGTH_MIN)
      this.upright.push({ at: (x0 + x1) / 2, from: Math.min(y0, y1), to: Math.max(y0, y1) });
  }
}

/** Lines along the page's axes, bars, and the edges of what is shaded. @param at 32 bytes of the library's memory. */
export function rulesOf(pdfium: Pdfium, page: number, at: number): PageRules {
  const drawn = new RuleList();
  const shaded = new RuleList();
  const bare = pdfium.wasmExports;
  let [paths, looked] = [0, 0];
  for (const { object, type, matrix } of objectsOf(pdfium, page, at)) {
    if (type !== PATH) continue;
    paths += 1;
    if (paths > PATHS_MAX || looked > POINTS_MAX) return NO_RULES;
    const count = bare.FPDFPath_CountSegments(object);
    if (count < 2 || count > SEGMENTS_MAX) continue;
    const { isFilled, isStroked } = lookOf(pdfium, object, at);
    if (!isFilled && !isStroked) continue;
    const box = boundsOf(pdfium, object, at, matrix);
    if (Math.min(box.right - box.left, box.top - box.bottom) <= RULE_WIDTH_MAX) {
      drawn.add(box.left, box.bottom, box.right, box.top);
      continue;
    }
    looked += count;
    const [points, isLines] = pointsOf(pdfium, object, count, at, matrix);
    if (!isLines) continue;
    const rules = isStroked ? drawn : shaded;
    for (const [index, { x, y, isMove }] of points.entries()) {
      const before = points[index - 1];
      if (before !== undefined && !isMove) rules.add(before.x, before.y, x, y);
    }
    const [first, last] = [points[0], points.at(-1)];
    if (first !== undefined && last !== undefined && points.length <= 5)
      rules.add(last.x, last.y, first.x, first.y);
  }
  return { drawn, shaded };
}

function lookOf(pdfium: Pdfium, object: number, at: number) {
  pdfium.wasmExports.FPDFPath_GetDrawMode(object, at, at + 4);
  const { 0: fill = 0, 1: stroke = 0 } = new Int32Array(pdfium.HEAPU8.buffer, at, 2);
  return { isFilled: fill !== 0, isStroked: stroke !== 0 };
}

interface PathPoint {
  readonly x: number;
  readonly y: number;
  readonly isMove: boolean;
}

/** @returns the points on the page, and whether straight lines alone lie between them. */
function pointsOf(
  pdfium: Pdfium,
  object: number,
  count: number,
  at: number,
  matrix: Matrix,
): [points: readonly PathPoint[], isLines: boolean] {
  const bare = pdfium.wasmExports;
  const [a, b, c, d, e, f] = times(matrixOf(pdfium, object, at), matrix);
  const points: PathPoint[] = [];
  for (let index = 0; index < count; index += 1) {
    const segment = bare.FPDFPath_GetPathSegment(object, index);
    const type = bare.FPDFPathSegment_GetType(segment);
    if (type !== MOVE_TO && type !== LINE_TO) return [[], false];
    bare.FPDFPathSegment_GetPoint(segment, at, at + 4);
    const { 0: x = 0, 1: y = 0 } = new Float32Array(pdfium.HEAPU8.buffer, at, 2);
    points.push({ x: a * x + c * y + e, y: b * x + d * y + f, isMove: type === MOVE_TO });
  }
  return [points, true];
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
      yield* within(object, times(matrixOf(pdfium, object, at), matrix), depth + 1);
    }
  }
  yield* within(page, SAME, 0);
}

/** On the page. @param matrix from where the object lies. */
function boundsOf(pdfium: Pdfium, object: number, at: number, matrix: Matrix): Box {
  pdfium.wasmExports.FPDFPageObj_GetBounds(object, at, at + 4, at + 8, at + 12);
  const told = new Float32Array(pdfium.HEAPU8.buffer, at, 4);
  // By places: to iterate over an array of so few takes longer than what is done with them.
  const { 0: left = 0, 1: bottom = 0, 2: right = 0, 3: top = 0 } = told;
  return moved({ left, bottom, right, top }, matrix);
}

function matrixOf(pdfium: Pdfium, object: number, at: number): Matrix {
  pdfium.wasmExports.FPDFPageObj_GetMatrix(object, at);
  const told = new Float32Array(pdfium.HEAPU8.buffer, at, 6);
  const { 0: a = 1, 1: b = 0, 2: c = 0, 3: d = 1, 4: e = 0, 5: f = 0 } = told;
  return [a, b, c, d, e, f];
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

/** Without a list of the corners: a drawing has thousands of boxes. */
function moved({ left, right, bottom, top }: Box, matrix: Matrix): Box {
  const { 0: a, 1: b, 2: c, 3: d, 4: e, 5: f } = matrix;
  const x0 = a * left + c * bottom + e;
  const x1 = a * left + c * top + e;
  const x2 = a * right + c * bottom + e;
  const x3 = a * right + c * top + e;
  const y0 = b * left + d * bottom + f;
  const y1 = b * left + d * top + f;
  const y2 = b * right + d * bottom + f;
  const y3 = b * right + d * top + f;
  return {
    left: Math.min(x0, x1, x2, x3),
    right: Math.max(x0, x1, x2, x3),
    bottom: Math.min(y0, y1, y2, y3),
    top: Math.max(y0, y1, y2, y3),
  };
}
