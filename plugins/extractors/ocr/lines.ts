/**
 * Owns where recognised lines stand in a picture: from the table of the recognition, back over its levelling and turning.
 * It must never guess: where table and text do not agree, no line has a place.
 */
import type { LinePlace } from 'preface/plugin';
import type { GreyPicture } from './picture.js';
import type { Turn } from './turn.js';

type Size = Pick<GreyPicture, 'width' | 'height'>;

const [LINE, WORD] = ['4', '5'];

/** The lines that have words, of tesseract's table: level, page, block, paragraph, line, word, left, top, width, height, confidence, text. */
export function levelLines(table: string): LinePlace[] {
  const lines: { box: LinePlace['box']; scores: number[] }[] = [];
  for (const row of table.split('\n')) {
    const [level, , , , , , left, top, width, height, score, text = ''] = row.split('\t');
    if (level === LINE) {
      const [x, y] = [Number(left), Number(top)];
      lines.push({ box: [x, y, x + Number(width), y + Number(height)], scores: [] });
    } else if (level === WORD && text.trim() !== '') lines.at(-1)?.scores.push(Number(score));
  }
  return lines
    .filter(({ scores }) => scores.length > 0)
    .map(({ box, scores }) => {
      return { box, score: scores.reduce((sum, each) => sum + each, 0) / scores.length };
    });
}

/** Of each line of a text; null for blank ones. @param radians by which the picture was levelled, clockwise. */
export function placesOf(
  text: string,
  found: readonly LinePlace[],
  picture: Size,
  radians: number,
): (LinePlace | null)[] {
  const lines = text.split('\n');
  const filled = lines.filter((line) => line.trim() !== '').length;
  const left = filled === found.length ? [...found] : [];
  return lines.map((line) => {
    const place = line.trim() === '' ? undefined : left.shift();
    return place === undefined ? null : askew(place, picture, radians);
  });
}

/** The levelling turned the picture round its centre. */
function askew({ box, score }: LinePlace, { width, height }: Size, radians: number): LinePlace {
  const [x0, y0, x1, y1] = box;
  const [cos, sin] = [Math.cos(radians), Math.sin(radians)];
  const [middleX, middleY] = [width / 2, height / 2];
  return around(score, [back(x0, y0), back(x1, y0), back(x0, y1), back(x1, y1)]);
  function back(x: number, y: number): Point {
    const [dx, dy] = [x - middleX, y - middleY];
    return [middleX + dx * cos + dy * sin, middleY - dx * sin + dy * cos];
  }
}

/** @param picture before it was turned. */
export function turnedBack(place: LinePlace, { width, height }: Size, turn: Turn): LinePlace {
  const [x0, y0, x1, y1] = place.box;
  const back = ([x, y]: Point): Point => {
    if (turn === 90) return [y, height - x];
    if (turn === 180) return [width - x, height - y];
    return turn === 270 ? [width - y, x] : [x, y];
  };
  return around(place.score, [back([x0, y0]), back([x1, y1])]);
}

/** @param picture before it was mirrored. */
export function mirroredBack({ box, score }: LinePlace, { width }: Size): LinePlace {
  const [x0, y0, x1, y1] = box;
  return around(score, [
    [width - x0, y0],
    [width - x1, y1],
  ]);
}

type Point = readonly [number, number];

function around(score: number | undefined, points: readonly Point[]): LinePlace {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] as const;
  return { box, ...(score !== undefined && { score }) };
}
