/**
 * Owns which pictures of a doc are shown: those in a line, those that float and are anchored in the text, and the page's background.
 * It must never show one whose reference is deleted; what an older save left behind has none.
 */
import type { PagePart } from '../ocr/picture-texts.js';
import { blipAt, blipsIn, childrenOf, PICTURES_MAX, partOf, storedIn } from './blips.js';
import type { DocAnchor } from './doc-text.js';
import { picturesOf } from './ppt-pictures.js';
import { type PptRecord, recordAt } from './ppt-records.js';

/** In the order of the streams, as they stand there: those in lines lie in a stream of their own. */
export function docPictures(
  streams: { readonly main: Buffer; readonly table: Buffer; readonly data: Buffer | null },
  anchors: readonly DocAnchor[],
): PagePart[] {
  const found = [
    ...floating(streams.main, streams.table, anchors),
    ...(streams.data === null ? [] : inLines(streams.data, anchors)),
  ];
  return found.slice(0, PICTURES_MAX).map((picture, at) => partOf(picture, at + 1));
}

/** Its length comes first. Two that lie one in another are read once, up to where the second begins. */
function* inLines(data: Buffer, anchors: readonly DocAnchor[]): Generator<Buffer> {
  const places = new Set(anchors.map(({ picture }) => picture));
  const starts = [...places]
    .filter((place): place is number => place !== null && place >= 0 && place + 4 <= data.length)
    .sort((a, b) => a - b);
  for (const [at, start] of starts.entries()) {
    const end = Math.min(start + data.readUInt32LE(start), starts[at + 1] ?? data.length);
    for (const part of blipsIn(data.subarray(start, end))) {
      const bytes = part.bytes();
      if (bytes !== null) yield Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    }
  }
}

const DRAWINGS = 0x22a;
const DRAWING = 0xf002;
const SHAPES = 0xf003;
const SHAPE = 0xf004;
const SHAPE_FIELDS = 0xf00a;
const OPTIONS = 0xf00b;
/** Of a stored picture: where it lies in the stream of the text. */
const PLACE_AT = 28;
/** Groups within groups. */
const DEPTH_MAX = 32;

function* floating(main: Buffer, table: Buffer, anchors: readonly DocAnchor[]): Generator<Buffer> {
  const anchored = anchoredShapes(main, table, anchors);
  const start = main.readUInt32LE(DRAWINGS);
  const bytes = table.subarray(start, start + main.readUInt32LE(DRAWINGS + 4));
  const [group, ...drawings] = drawingsIn(bytes);
  if (group === undefined) return;
  const numbers = new Set<number>();
  for (const record of childrenOf(drawings, DRAWING)) {
    // Beside the tree of the others: it has no anchor.
    const isBackground = record.type === SHAPE;
    const shapes = record.type === SHAPES ? record.children() : isBackground ? [record] : [];
    for (const shape of shapes) {
      if (isBackground || anchored.has(idOf(shape))) addNumbers(shape, numbers, 0);
    }
  }
  let number = 0;
  for (const { data } of storedIn([group])) {
    number += 1;
    if (!numbers.has(number) || data.length < PLACE_AT + 4) continue;
    const picture = blipAt(main, data.readUInt32LE(PLACE_AT));
    if (picture !== null) yield picture;
  }
}

/** A byte stands before each but the first, which is that of all. */
function drawingsIn(bytes: Buffer): PptRecord[] {
  const found: PptRecord[] = [];
  for (let at = 0; at + 8 <= bytes.length; at += 9 + bytes.readUInt32LE(at + 4)) {
    found.push(recordAt(bytes, at));
  }
  return found;
}

/** Of a shape, or of the group whose first shape it is. The bounds of a group stand before the fields of that shape. */
function idOf(record: PptRecord): number {
  let within: PptRecord | undefined = record;
  for (let depth = 0; within !== undefined && depth < DEPTH_MAX; depth += 1) {
    const children: PptRecord[] = [...within.children()];
    const fields = children.find(({ type }) => type === SHAPE_FIELDS);
    if (fields !== undefined) return fields.data.length < 4 ? 0 : fields.data.readUInt32LE(0);
    within = children.find(({ type }) => type === SHAPES || type === SHAPE);
  }
  return 0;
}

function addNumbers(record: PptRecord, numbers: Set<number>, depth: number): void {
  if (record.type === OPTIONS) for (const number of picturesOf(record)) numbers.add(number);
  if (depth >= DEPTH_MAX) return;
  for (const child of record.children()) addNumbers(child, numbers, depth + 1);
}

/** Where the shapes of the body are listed, and those of headers: positions, then fields that begin with the shape's number. */
const ANCHORED = [0x1da, 0x1e2];
const HEADERS_AT = 1;
const POSITION_BYTES = 4;
const FIELDS_BYTES = 26;

function anchoredShapes(
  main: Buffer,
  table: Buffer,
  anchors: readonly DocAnchor[],
): ReadonlySet<number> {
  const shown = new Set(anchors.map(({ at }) => at));
  const shapes = new Set<number>();
  for (const [part, field] of ANCHORED.entries()) {
    const first = part === HEADERS_AT ? main.readUInt32LE(0x4c) + main.readUInt32LE(0x50) : 0;
    const start = main.readUInt32LE(field);
    const length = main.readUInt32LE(field + 4);
    if (length < POSITION_BYTES || start + length > table.length) continue;
    const count = Math.floor((length - POSITION_BYTES) / (POSITION_BYTES + FIELDS_BYTES));
    const fields = start + (count + 1) * POSITION_BYTES;
    for (let index = 0; index < count; index += 1) {
      const at = first + table.readUInt32LE(start + index * POSITION_BYTES);
      if (shown.has(at)) shapes.add(table.readUInt32LE(fields + index * FIELDS_BYTES));
    }
  }
  return shapes;
}
