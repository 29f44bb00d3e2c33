/**
 * Owns the output of a run: the table on the screen, and one JSON file and one plot per question.
 * It must never round a figure in the file.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { curvePlot } from './curve-plot.js';
import { plot } from './plot.js';
import { pinning } from './processes.js';
import type { Curves, Scale } from './question.js';
import type { Measured, MeasuredLine } from './rounds.js';
import type { Spread } from './stats.js';
import { short } from './text.js';

export interface Result extends Measured {
  readonly name: string;
  readonly title: string;
  readonly notes: readonly string[];
  readonly curves: Curves | null;
  readonly scale: Scale;
}

export function printResult({ title, lines, sides, notes }: Result): void {
  console.log(`\n${title}`);
  const head = ['', 'measured', 'floor', 'ratio', 'must', 'goal', 'verdict'];
  printColumns([head, ...lines.map(columns)]);
  for (const { name, check, errors, beside } of sides) {
    const more = Object.entries(beside).map(([key, value]) => `${short(value)} ${key}`);
    console.log(`  ${[`${name}: check ${check}, errors ${errors}`, ...more].join('; ')}`);
  }
  for (const note of notes) console.log(`  ${note}`);
}

function columns(line: MeasuredLine): string[] {
  const { label, unit, value, floor, ratio, verdict, judged } = line;
  const sign = line.better === 'more' ? '≥' : '≤';
  const bound = (at: number | null): string => {
    if (at === null) return '';
    // One more digit than a figure has: 0.997 must not become 1.
    return `${sign} ${at.toLocaleString('en', { maximumFractionDigits: 3 })}${judged === 'ratio' ? '×' : ''}`;
  };
  return [
    ...[label, `${spread(value)} ${unit}`, floor === null ? '' : spread(floor.value)],
    ...[ratio === null ? '' : `${spread(ratio)}×`, bound(line.must), bound(line.goal), verdict],
  ];
}

export function printColumns(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => row[at]?.length ?? 0)),
  );
  for (const row of rows) {
    console.log(`  ${row.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ')}`.trimEnd());
  }
}

/** Median, and the quartiles around it. */
export function spread({ low, median, high }: Spread): string {
  return `${short(median)} (${short(low)}–${short(high)})`;
}

export function saveResult(folder: string, result: Result): void {
  mkdirSync(folder, { recursive: true });
  const about = { machine: machine(), commit: commit(), at: new Date().toISOString() };
  const text = JSON.stringify({ ...about, ...result }, null, 2);
  writeFileSync(join(folder, `${result.name}.json`), `${text}\n`);
  writeFileSync(join(folder, `${result.name}.svg`), picture(result));
}

export function picture(result: Result): string {
  const { title, curves, sides } = result;
  return curves === null ? plot(result) : curvePlot({ title, curves, sides });
}

function machine(): object {
  const [cpu] = cpus();
  return {
    cpu: cpu?.model,
    cores: cpus().length,
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()}`,
    node: process.version,
    pinning,
  };
}

/** The commit, with a plus where the files differ from it. */
function commit(): string | null {
  try {
    const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim();
    const changed = git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      'src',
      'workers',
      'plugins',
    );
    return git('rev-parse', '--short=12', 'HEAD') + (changed === '' ? '' : '+');
  } catch {
    return null;
  }
}
