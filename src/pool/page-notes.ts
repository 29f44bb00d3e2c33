/**
 * Owns what is kept of a page beside its text: where its lines stand, how sure OCR is, what was not read.
 * It must never let a reader say more than the bounds allow.
 */
import { toUSVString } from 'node:util';
import { limits } from '../limits/index.js';
import type { DocumentPage, LinePlace, PageLayout } from '../plugin/contract.js';
import type { PageNotes } from './messages.js';

const { extractionReasonLengthMax, extractionPageLinesMax, extractionPageSkippedMax } = limits;

/** No page is larger: a point is the 72nd part of an inch. */
const SIDE_MAX = 1e6;

/** As an extractor tells it, cut to the bounds; null where there is nothing to keep. */
export function notesOf({ recognized, skipped = [], layout }: DocumentPage): PageNotes | null {
  const places = layout === undefined ? undefined : layoutOf(layout);
  const named = skipped
    .slice(0, extractionPageSkippedMax)
    .map((name) => toUSVString(name.slice(0, extractionReasonLengthMax)));
  const score = recognized === undefined ? undefined : within(recognized, 100);
  if (places === undefined && score === undefined && named.length === 0) return null;
  return {
    ...(score !== undefined && { recognized: score }),
    ...(named.length > 0 && { skipped: named }),
    ...(places !== undefined && { layout: places }),
  };
}

/** A page of more lines than the bound says where none of them stands. */
function layoutOf({ width, height, unit, lines }: PageLayout): PageLayout | undefined {
  if (![width, height].every((side) => Number.isFinite(side) && side > 0 && side <= SIDE_MAX)) {
    return undefined;
  }
  const size = { width: tenths(width), height: tenths(height), unit };
  const kept = lines.length > extractionPageLinesMax ? [] : lines;
  return { ...size, lines: kept.map((line) => line && placeOf(line)) };
}

function placeOf({ box, score }: LinePlace): LinePlace {
  const [left, top, right, bottom] = box;
  return {
    box: [side(left), side(top), side(right), side(bottom)],
    ...(score !== undefined && { score: within(score, 100) }),
  };
}

function side(value: number): number {
  return Number.isFinite(value) ? tenths(Math.min(SIDE_MAX, Math.max(-SIDE_MAX, value))) : 0;
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}

function within(value: number, max: number): number {
  return Number.isFinite(value) ? Math.round(Math.min(max, Math.max(0, value))) : 0;
}

type Fields = Readonly<Record<string, unknown>>;

/** As a reader says it. @throws Error for what `notesOf` would not have made. */
export function checkedNotes(value: unknown): PageNotes | null {
  if (value === null) return null;
  const { recognized, skipped, layout } = fieldsOf(value);
  return {
    ...(recognized !== undefined && { recognized: number(recognized, 0, 100) }),
    ...(skipped !== undefined && { skipped: list(skipped, extractionPageSkippedMax, name) }),
    ...(layout !== undefined && { layout: checkedLayout(fieldsOf(layout)) }),
  };
}

function checkedLayout({ width, height, unit, lines }: Fields): PageLayout {
  if (unit !== 'point' && unit !== 'pixel') throw new Error('a page in an unknown unit');
  const [wide, high] = [number(width, 0, SIDE_MAX), number(height, 0, SIDE_MAX)];
  const checked = list(lines, extractionPageLinesMax, (line) =>
    line === null ? null : checkedPlace(fieldsOf(line)),
  );
  return { width: wide, height: high, unit, lines: checked };
}

function checkedPlace({ box, score }: Fields): LinePlace {
  const sides = list(box, 4, (value) => number(value, -SIDE_MAX, SIDE_MAX));
  const [left, top, right, bottom] = sides;
  if (left === undefined || top === undefined || right === undefined || bottom === undefined) {
    throw new Error('a box without four sides');
  }
  return {
    box: [left, top, right, bottom],
    ...(score !== undefined && { score: number(score, 0, 100) }),
  };
}

function name(value: unknown): string {
  if (typeof value === 'string' && value.length <= extractionReasonLengthMax) return value;
  throw new Error('no name, or one that is too long');
}

function number(value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && value >= min && value <= max) return value;
  throw new Error('no number, or one beyond its bounds');
}

function list<Item>(value: unknown, max: number, read: (item: unknown) => Item): Item[] {
  if (Array.isArray(value) && value.length <= max) return value.map(read);
  throw new Error('no list, or one that is too long');
}

function fieldsOf(value: unknown): Fields {
  if (typeof value === 'object' && value !== null) return value as Fields;
  throw new Error('no message');
}
