/**
 * Owns the plot of a figure over a size: one curve per series, both axes logarithmic, quartiles as whiskers.
 * It must never join points that were not measured in the same run.
 */
import type { Curves } from './question.js';
import type { MeasuredSide } from './rounds.js';
import { type Spread, spreadOf } from './stats.js';
import { escaped, short } from './text.js';

const WIDTH = 760;
const HEIGHT = 420;
const PLACE = { left: 70, right: 170, top: 48, bottom: 52 };
const COLOURS = ['#c0392b', '#2f6fb5', '#2e8b57', '#8e5ea2', '#7f8c8d', '#d68910'];

interface Point {
  readonly x: number;
  readonly value: Spread;
}

type Scaled = (value: number) => number;

export function curvePlot({
  title,
  curves,
  sides,
}: {
  readonly title: string;
  readonly curves: Curves;
  readonly sides: readonly MeasuredSide[];
}): string {
  const series = curves.series.map(({ name, points }) => ({
    name,
    points: points.map(({ x, side }) => ({ x, value: spreadAt(sides, side) })),
  }));
  const points = series.flatMap((each) => each.points);
  const right = WIDTH - PLACE.right;
  const low = HEIGHT - PLACE.bottom;
  const x = byFactor(
    points.map((point) => point.x),
    PLACE.left + 16,
    right,
  );
  const y = byFactor(
    points.flatMap(({ value }) => [value.low, value.high]),
    low,
    PLACE.top + 10,
  );
  const lanes = new Set(points.map((point) => point.x));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="13">
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
<text x="12" y="24" font-size="16" font-weight="600" fill="#222">${escaped(title)}</text>
<text x="${PLACE.left}" y="${HEIGHT - 12}" fill="#666">${escaped(curves.across)}</text>
<text x="${WIDTH - 12}" y="24" text-anchor="end" fill="#666">${escaped(curves.unit)}, by factors of ten</text>
${[...lanes].map((at) => mark(x(at).toFixed(1), low + 18, 'middle', short(at))).join('\n')}
${decades(points)
  .map((at) => gridLine(y(at), right, at))
  .join('\n')}
${series.map((each, at) => curve(each, x, y, COLOURS[at % COLOURS.length] ?? '#222')).join('\n')}
</svg>
`;
}

function spreadAt(sides: readonly MeasuredSide[], name: string): Spread {
  const side = sides.find((each) => each.name === name);
  if (side === undefined) throw new Error(`no side is called '${name}'`);
  return spreadOf(side.values);
}

function byFactor(values: readonly number[], from: number, to: number): Scaled {
  const [least, most] = [Math.log(Math.min(...values)), Math.log(Math.max(...values))];
  return (value) => from + ((Math.log(value) - least) / (most - least || 1)) * (to - from);
}

function decades(points: readonly Point[]): number[] {
  const least = Math.ceil(Math.log10(Math.min(...points.map(({ value }) => value.low))));
  const most = Math.floor(Math.log10(Math.max(...points.map(({ value }) => value.high))));
  return Array.from({ length: Math.max(0, most - least + 1) }, (_, at) => 10 ** (least + at));
}

function gridLine(y: number, right: number, value: number): string {
  const at = y.toFixed(1);
  return `<line x1="${PLACE.left}" x2="${right}" y1="${at}" y2="${at}" stroke="#ddd"/>
${mark(PLACE.left - 8, Number(at) + 4, 'end', short(value))}`;
}

function mark(x: number | string, y: number, anchor: string, text: string): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="#666">${escaped(text)}</text>`;
}

function curve(
  { name, points }: { readonly name: string; readonly points: readonly Point[] },
  x: Scaled,
  y: Scaled,
  colour: string,
): string {
  const places = points.map((point) =>
    [x(point.x), y(point.value.median)].map((at) => at.toFixed(1)),
  );
  const whiskers = points.map(({ x: at, value }) => {
    const across = x(at).toFixed(1);
    return `<line x1="${across}" x2="${across}" y1="${y(value.low).toFixed(1)}" y2="${y(value.high).toFixed(1)}" stroke="${colour}"/>`;
  });
  const dots = places.map(([px, py]) => `<circle cx="${px}" cy="${py}" r="3.5" fill="${colour}"/>`);
  const [endX = '0', endY = '0'] = places.at(-1) ?? [];
  const last = points.at(-1);
  const label = `${name}${last === undefined ? '' : `, ${short(last.value.median)}`}`;
  return [
    `<polyline points="${places.map((place) => place.join(',')).join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    ...whiskers,
    ...dots,
    `<text x="${Number(endX) + 8}" y="${Number(endY) + 4}" fill="${colour}">${escaped(label)}</text>`,
  ].join('\n');
}
