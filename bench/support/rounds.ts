/**
 * Owns the order of a run: every side once per round, in turn, so that slow moments of the machine affect all sides alike.
 * It must never accept a round with errors, nor answers that change between rounds.
 */
import type { Line, OpenQuestion, Sample, Scale, Side } from './question.js';
import { type Spread, spreadOf, type Verdict, verdictOf } from './stats.js';

export interface MeasuredSide {
  readonly name: string;
  readonly check: string;
  readonly errors: number;
  readonly values: readonly number[];
  readonly beside: Readonly<Record<string, number>>;
}

export interface MeasuredLine extends Line {
  readonly value: Spread;
  readonly floor: { readonly side: string; readonly value: Spread } | null;
  readonly ratio: Spread | null;
  readonly verdict: Verdict;
}

export interface Measured {
  readonly sides: readonly MeasuredSide[];
  readonly lines: readonly MeasuredLine[];
}

export async function measure(question: OpenQuestion, scale: Scale): Promise<Measured> {
  const samples = new Map<string, Sample[]>(question.sides.map(({ name }) => [name, []]));
  // The first round only warms up the compilers, caches and connections of all sides.
  for (let round = scale.tiny ? 0 : -1; round < scale.rounds; round++) {
    for (const side of ordered(question.sides, round)) {
      if (!isDue(side, round, scale.rounds)) continue;
      const sample = await side.measure(round);
      if (round >= 0) samples.get(side.name)?.push(sample);
    }
  }
  const sides = [...samples].map(([name, of]) => measuredSide(name, of));
  return { sides, lines: question.lines.map((line) => measuredLine(line, sides)) };
}

/** Each round begins with the next side. */
function ordered(sides: readonly Side[], round: number): readonly Side[] {
  const first = (round + 1) % sides.length;
  return [...sides.slice(first), ...sides.slice(0, first)];
}

/** The rounds are split into `roundsMax` stretches; a slow side is measured in the first round of each. */
function isDue({ roundsMax }: Side, round: number, rounds: number): boolean {
  if (roundsMax === undefined) return true;
  const stretch = (at: number) => Math.floor((at * Math.min(roundsMax, rounds)) / rounds);
  return round === 0 || (round > 0 && stretch(round) > stretch(round - 1));
}

function measuredSide(name: string, samples: readonly Sample[]): MeasuredSide {
  const checks = new Set(samples.map(({ check }) => check));
  if (checks.size > 1) throw new Error(`${name} changes its answer: ${[...checks].join(' | ')}`);
  const beside: Record<string, number> = {};
  for (const key of Object.keys(samples[0]?.beside ?? {})) {
    beside[key] = spreadOf(samples.map((sample) => sample.beside?.[key] ?? Number.NaN)).median;
  }
  return {
    name,
    check: [...checks].join(),
    errors: samples.reduce((sum, { errors }) => sum + errors, 0),
    values: samples.map(({ value }) => value),
    beside,
  };
}

function measuredLine(line: Line, sides: readonly MeasuredSide[]): MeasuredLine {
  const { values } = sideNamed(sides, line.subject);
  const floor = bestFloor(line, sides);
  const value = spreadOf(values);
  const ratio =
    floor === null
      ? null
      : spreadOf(pairs(values, floor.values).map(([own, other]) => own / other));
  const judged = line.judged === 'ratio' ? (ratio ?? value) : value;
  const bounds = { ...line, ...boundsOf(line, floor) };
  return {
    ...bounds,
    value,
    floor: floor === null ? null : { side: floor.name, value: spreadOf(floor.values) },
    ratio,
    verdict: verdictOf(judged, bounds),
  };
}

function boundsOf({ must, goal, plus }: Line, floor: MeasuredSide | null) {
  if (plus === undefined || floor === null) return { must, goal };
  const { median } = spreadOf(floor.values);
  const raised = (bound: number | null, by: number) =>
    bound === null ? null : bound + by / median;
  return { must: raised(must, plus.must), goal: raised(goal, plus.goal) };
}

/** Pairs each value with the other side's value of the same round, or of the last round before. */
function pairs(own: readonly number[], other: readonly number[]): [number, number][] {
  const most = Math.max(own.length, other.length);
  const at = (values: readonly number[], round: number): number =>
    values[Math.floor((round * values.length) / most)] ?? Number.NaN;
  return Array.from({ length: most }, (_, round) => [at(own, round), at(other, round)]);
}

/** The floor with which the subject compares worst. */
function bestFloor(line: Line, sides: readonly MeasuredSide[]): MeasuredSide | null {
  const sign = line.better === 'more' ? -1 : 1;
  const median = ({ values }: MeasuredSide) => sign * spreadOf(values).median;
  const [best] = line.floors
    .map((name) => sideNamed(sides, name))
    .sort((a, b) => median(a) - median(b));
  return best ?? null;
}

function sideNamed(sides: readonly MeasuredSide[], name: string): MeasuredSide {
  const found = sides.find((side) => side.name === name);
  if (found === undefined) throw new Error(`no side is called '${name}'`);
  return found;
}
