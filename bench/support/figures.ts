/**
 * Owns the tables of figures in the documents, made from the result files of the benches.
 * It must never hold a figure itself, nor hide a row that fell short.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Result } from './report.js';
import type { MeasuredLine } from './rounds.js';
import { short } from './text.js';

interface StoredResult extends Result {
  /** ISO date and time of the run. */
  readonly at: string;
  readonly commit: string | null;
}

/** A row of the short table: its name there, and the line and question it comes from. */
interface Pick {
  readonly what: string;
  readonly question: string;
  readonly label: string;
  /** The beginning of the floor's name, where a label has several lines. */
  readonly beside?: string;
}

const picks: readonly Pick[] = [
  {
    what: 'first text of a hit, prefix of 4 096 tokens',
    question: 'cache-hit',
    label: 'hit, 4096',
  },
  {
    what: 'the next hit',
    question: 'cache-hit',
    label: 'warm hit, 4096',
    beside: 'engine alone',
  },
  { what: 'first hit after a restart', question: 'cache-hit', label: 'after restart, 4096' },
  {
    what: '16 caches of 2 000 tokens in turn, memory for 4',
    question: 'cache-round-robin',
    label: 'time to the first text, in turn',
    beside: 'llama-server',
  },
  {
    what: 'hits that answer otherwise than a cold run',
    question: 'cache-exact',
    label: 'exact: true',
  },
  { what: '8 streams of the real model', question: 'engine-tokens', label: '8 streams' },
  { what: 'chat on the echo engine', question: 'chat-echo', label: 'a new text each time' },
  {
    what: '200 streams, a token each every 20 ms',
    question: 'stream-chunks',
    label: 'a token a stream each 20 ms',
  },
  {
    what: 'added by the service to a chat, p50',
    question: 'proxy-overhead',
    label: 'added at p50, beside LiteLLM',
  },
  {
    what: 'kills (-9) after which no acknowledged write was lost',
    question: 'acknowledged-writes',
    label: 'nothing lost',
  },
];

export function readResults(folder: string): StoredResult[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as StoredResult);
}

/** The short table. @throws Error for a line that is not among the results. */
export function measuredMarkdown(results: readonly StoredResult[]): string {
  const rows = picks.map((pick) => {
    const result = results.find(({ name }) => name === pick.question);
    const line = result?.lines.find(
      ({ label, floor }) =>
        label === pick.label && (floor?.side ?? '').startsWith(pick.beside ?? ''),
    );
    if (result === undefined || line === undefined) {
      throw new Error(`no line '${pick.label}' among the results of ${pick.question}`);
    }
    return row([pick.what, measured(line), floorOf(line), ratioOf(line), day(result)]);
  });
  return [row(['what', 'measured', 'floor', 'ratio', 'date']), row(dashes(5)), ...rows].join('\n');
}

/** Every line of every question. */
export function figuresMarkdown(results: readonly StoredResult[]): string {
  const head = ['question', 'line', 'measured', 'floor', 'ratio', 'must', 'verdict', 'run'];
  const rows = results.flatMap((result) =>
    result.lines.map((line, at) =>
      row([
        at === 0 ? `[\`${result.name}\`](results/${result.name}.json)` : '',
        line.label,
        measured(line),
        floorOf(line),
        ratioOf(line),
        mustOf(line),
        line.verdict,
        at === 0 ? `${day(result)}, ${result.commit ?? 'no commit'}` : '',
      ]),
    ),
  );
  return [row(head), row(dashes(head.length)), ...rows].join('\n');
}

/** What each recipe of the cookbook saves. @throws Error where it was not measured. */
export function cookbookMarkdown(results: readonly StoredResult[]): string {
  const result = results.find(({ name }) => name === 'cookbook');
  if (result === undefined) throw new Error('the cookbook was not measured');
  const tokens = (side: string | undefined) => {
    const found = result.sides.find(({ name }) => name === side);
    return short(found?.beside['tokens evaluated'] ?? Number.NaN);
  };
  const head = ['case', 'tokens evaluated', 'with nothing reused', 'time', 'with nothing reused'];
  const rows = result.lines.map((line) => {
    const other = line.floor === null ? '' : `${short(line.floor.value.median)} ${line.unit}`;
    const counts = [tokens(line.subject), tokens(line.floor?.side)];
    return row([line.label, ...counts, measured(line), other]);
  });
  return [row(head), row(dashes(head.length)), ...rows, '', `Run of ${day(result)}.`].join('\n');
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
const dashes = (count: number) => Array<string>(count).fill('---');
const day = ({ at }: StoredResult) => at.slice(0, 10);
const measured = ({ value, unit }: MeasuredLine) => `${short(value.median)} ${unit}`;

function floorOf({ floor }: MeasuredLine): string {
  return floor === null ? '' : `${floor.side}: ${short(floor.value.median)}`;
}

function ratioOf({ ratio }: MeasuredLine): string {
  return ratio === null ? '' : `${ratioText(ratio.median)}×`;
}

function mustOf({ must, better, judged }: MeasuredLine): string {
  if (must === null) return '';
  return `${better === 'more' ? '≥' : '≤'} ${ratioText(must)}${judged === 'ratio' ? '×' : ''}`;
}

/** Three significant digits: 0.017 must not become 0.02. */
function ratioText(value: number): string {
  return value.toLocaleString('en', { maximumSignificantDigits: 3 });
}
