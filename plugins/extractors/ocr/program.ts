/**
 * Owns what the program `tesseract` says of a picture: its lines, how sure it is of them, and whether they lie askew.
 * It must never believe it: a picture may make the program write anything, so whatever is not found in it is left out.
 */
import type { ExtractorOptions, LinePlace } from 'preface/plugin';
import { levelled } from './level.js';
import { attemptOf, type Found, type Pass } from './tries.js';

type Recognize = NonNullable<ExtractorOptions['recognize']>;

/** Radians from which on a picture is levelled and read again: up to there the program finds as many words as afterwards. */
const ASKEW_MIN = 0.02;

export function programPass(recognize: Recognize): Pass {
  return async (picture, layout, level) => {
    const first = readoutOf(await recognize({ ...picture, layout }));
    const radians = -Math.atan(first.slope);
    if (!level || Math.abs(radians) < ASKEW_MIN) return attemptOf(first, { picture, radians: 0 });
    const flat = levelled(picture, radians);
    const second = readoutOf(await recognize({ ...flat, layout }));
    return attemptOf(second, { picture, radians });
  };
}

interface Readout extends Found {
  /** Of the lines, downwards to the right; of those the middle one, by their widths. */
  readonly slope: number;
}

interface Line {
  readonly box: LinePlace['box'];
  readonly slope: number;
  readonly scores: number[];
}

/** A line or a word of hOCR: its class, its facts, and what follows up to the next mark. */
const ELEMENT =
  /<span class='(ocr_line|ocr_header|ocr_caption|ocr_textfloat|ocrx_word)'[^>]{0,200}? title=(?:"([^"]{0,500})"|'([^']{0,500})')[^>]{0,200}>([^<]*(?:<(?:strong|em)>[^<]*)*)/g;

function readoutOf({ text, hocr }: Awaited<ReturnType<Recognize>>): Readout {
  const lines: Line[] = [];
  for (const [, kind, quoted, single, inner = ''] of hocr.matchAll(ELEMENT)) {
    const facts = quoted ?? single ?? '';
    if (kind !== 'ocrx_word') {
      const [left = 0, top = 0, right = 0, bottom = 0] = numbersOf(facts, 'bbox', 4);
      const [slope = 0] = numbersOf(facts, 'baseline', 1);
      lines.push({ box: [left, top, right, bottom], slope, scores: [] });
    } else if (inner.replace(/<[^>]*>/g, '').trim() !== '') {
      lines.at(-1)?.scores.push(numbersOf(facts, 'x_wconf', 1)[0] ?? 0);
    }
  }
  const filled = lines.filter(({ scores }) => scores.length > 0);
  const found = filled.map(({ box, scores }) => ({ box, score: mean(scores) }));
  return {
    text,
    found,
    score: mean(filled.flatMap(({ scores }) => scores)),
    slope: slopeOf(filled),
  };
}

/** @returns the numbers behind a name; fewer where it has fewer. */
function numbersOf(facts: string, name: string, count: number): number[] {
  const said = facts.split(';').map((fact) => fact.trim().split(/ +/));
  const [, ...values] = said.find(([first]) => first === name) ?? [];
  return values.slice(0, count).map(Number).filter(Number.isFinite);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, each) => sum + each, 0) / Math.max(1, values.length);
}

function slopeOf(lines: readonly Line[]): number {
  const sorted = [...lines].sort((one, other) => one.slope - other.slope);
  const width = ({ box }: Line) => Math.max(0, box[2] - box[0]);
  const half = sorted.reduce((sum, line) => sum + width(line), 0) / 2;
  let passed = 0;
  for (const line of sorted) {
    passed += width(line);
    if (passed >= half) return line.slope;
  }
  return 0;
}
