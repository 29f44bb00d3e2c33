/**
 * Owns a soak from the command line: how long, how hard, the table of results, and the verdict.
 * It must never exit with success after a violation.
 */
import { parseArgs } from 'node:util';
import { hasProc } from './support/processes.js';
import { printColumns } from './support/report.js';
import { type Soaked, type SoakOptions, soak } from './support/soak.js';
import type { CallFigures } from './support/soak-load.js';
import { quantileOf } from './support/stats.js';
import { short } from './support/text.js';

const USAGE = `usage: npm run soak -- [--seconds 600] [--warm-up 60] [--rate 2000] [--warm-rate RATE] [--streams 32] [--slope 5]
warm-up: seconds that count for no time and no memory, warm-rate: requests/s until then, rate if absent; slope: MB a minute that still are flat`;

async function main(): Promise<void> {
  if (!hasProc) throw new Error('a soak reads memory from /proc, which this machine does not have');
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '600' },
      'warm-up': { type: 'string', default: '60' },
      rate: { type: 'string', default: '2000' },
      'warm-rate': { type: 'string' },
      streams: { type: 'string', default: '32' },
      slope: { type: 'string', default: '5' },
    },
  });
  const options: SoakOptions = {
    seconds: Number(values.seconds),
    warmUpS: Number(values['warm-up']),
    ratePerS: Number(values.rate),
    warmRatePerS: Number(values['warm-rate'] ?? values.rate),
    streams: Number(values.streams),
    slopeMbPerMinMax: Number(values.slope),
  };
  const wrong = Object.values(options).some((value) => !(value >= 0));
  if (wrong || options.warmUpS >= options.seconds) throw new Error(USAGE);
  const soaked = await soak(options);
  print(soaked, options);
  if (soaked.violations.length > 0) process.exitCode = 1;
}

function print({ load, streams, slope, violations }: Soaked, options: SoakOptions): void {
  const rows = [...load.calls].sort(([a], [b]) => a.localeCompare(b));
  const all = { answered: 0, refused: 0, ms: rows.flatMap(([, { ms }]) => ms) };
  for (const [, { answered, refused }] of rows) {
    all.answered += answered;
    all.refused += refused;
  }
  printColumns([
    ['call', 'answered', '429', 'p50 ms', 'p99 ms', 'most ms'],
    ...rows.map(([name, figures]) => row(name, figures)),
    row('all', all),
  ]);
  const rate = load.sent / load.seconds;
  console.log(
    `\n${short(rate)} requests/s of ${options.ratePerS} wanted, ${load.leftOut} left out`,
  );
  if (streams === null) console.log('no streams on the real model');
  else {
    const p50 = short(quantileOf(streams.firstMs, 0.5));
    const p99 = short(quantileOf(streams.firstMs, 0.99));
    const times = `first content p50 ${p50} ms, p99 ${p99} ms`;
    console.log(
      `${options.streams} streams at a time on the real model: ${streams.whole} whole, ` +
        `${streams.refused} told to come back, ${short(streams.chunks / streams.seconds)} chunks/s, ${times}`,
    );
  }
  console.log(
    `memory: ${short(slope.firstMb)} MB to ${short(slope.lastMb)} MB, slope ${slope.mbPerMin.toFixed(2)} ` +
      `± ${slope.uncertainty.toFixed(2)} MB/min by ${slope.samples} samples`,
  );
  for (const violation of violations) console.log(`violation: ${violation}`);
  console.log(
    violations.length === 0
      ? `soak: held for ${options.seconds} s`
      : `soak: VIOLATED (${load.faultCount} wrong answers)`,
  );
}

function row(name: string, { answered, refused, ms }: CallFigures): string[] {
  const times = [0.5, 0.99, 1].map((part) => short(quantileOf(ms, part)));
  return [name, String(answered), String(refused), ...times];
}

await main();
