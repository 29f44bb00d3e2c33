/**
 * Owns the plot of a result: one bar per line beside its floor, quartiles as whiskers, bounds as marks.
 * It must never show a figure that is not in the result, nor load another file.
 */
import type { MeasuredLine } from './rounds.js';
import type { Spread } from './stats.js';
import { escaped, short } from './text.js';

const WIDTH = 760;
const LEFT = 210;
const RIGHT = 150;
const ROW = 58;
const TOP = 48;

export interface Plotted {
  readonly title: string;
  readonly lines: readonly MeasuredLine[];
}

export function plot({ title, lines }: Plotted): string {
  const height = TOP + lines.length * ROW + 12;
  const unit = [...new Set(lines.map((line) => line.unit))].join(', ');
  const body = lines.map((line, at) => rowOf(line, TOP + at * ROW)).join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="13">
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
<text x="12" y="24" font-size="16" font-weight="600" fill="#222">${escaped(title)}</text>
<text x="${WIDTH - 12}" y="24" text-anchor="end" fill="#666">${escaped(unit)}</text>
${body}
</svg>
`;
}

/** Each row has its own scale: rows of one plot can differ in unit and size. */
function rowOf(line: MeasuredLine, y: number): string {
  const bounds = boundsOf(line);
  const most = Math.max(
    line.value.high,
    line.floor?.value.high ?? 0,
    ...bounds.map(({ at }) => at),
  );
  const x = (value: number): number => LEFT + (value / most) * (WIDTH - LEFT - RIGHT);
  const parts = [
    `<text x="${LEFT - 10}" y="${y + 16}" text-anchor="end" fill="#222">${escaped(line.label)}</text>`,
    bar(line.value, x, y + 4, '#2f6fb5', `${short(line.value.median)}${ratioText(line)}`),
  ];
  if (line.floor !== null) {
    const floorName = `<text x="${LEFT - 10}" y="${y + 35}" text-anchor="end" font-size="11" fill="#777">${escaped(line.floor.side)}</text>`;
    parts.push(
      floorName,
      bar(line.floor.value, x, y + 24, '#b9c2cc', short(line.floor.value.median)),
    );
  }
  for (const { name, at } of bounds) {
    const where = x(at).toFixed(1);
    parts.push(
      `<line x1="${where}" x2="${where}" y1="${y}" y2="${y + 22}" stroke="#c0392b" stroke-dasharray="${name === 'must' ? 'none' : '3 2'}"><title>${name}: ${short(at)}</title></line>`,
    );
  }
  return parts.join('\n');
}

function ratioText({ ratio, verdict }: MeasuredLine): string {
  const times = ratio === null ? '' : `, ${short(ratio.median)}×`;
  return verdict === 'undecided' ? `${times} (undecided)` : times;
}

/** A bound on a ratio is drawn relative to the measured floor. */
function boundsOf({ judged, floor, must, goal }: MeasuredLine): { name: string; at: number }[] {
  const scale = judged === 'ratio' ? (floor?.value.median ?? Number.NaN) : 1;
  return [
    ...(must === null ? [] : [{ name: 'must', at: must * scale }]),
    ...(goal === null ? [] : [{ name: 'goal', at: goal * scale }]),
  ];
}

function bar(
  { low, median, high }: Spread,
  x: (value: number) => number,
  y: number,
  colour: string,
  text: string,
): string {
  const [from, to, end] = [x(low), x(high), x(median)].map((at) => at.toFixed(1));
  return [
    `<rect x="${LEFT}" y="${y}" width="${(x(median) - LEFT).toFixed(1)}" height="15" fill="${colour}"/>`,
    `<line x1="${from}" x2="${to}" y1="${y + 7.5}" y2="${y + 7.5}" stroke="#222"/>`,
    `<text x="${Number(Math.max(Number(end), Number(to)) + 6).toFixed(1)}" y="${y + 12}" fill="#222">${escaped(text)}</text>`,
  ].join('\n');
}
