/**
 * Owns the parsing of Prometheus's text format, and the rules of its linter for names.
 * It must never accept what a scraper would reject.
 */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: Sample[];
}

const NAME = /^[a-z_][a-z0-9_]*$/;
const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/gy;
const SUFFIXES: Readonly<Record<string, RegExp>> = { histogram: /_(bucket|sum|count)$/ };

/** @throws Error for a line that is not in the format. */
export function readExposition(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  let help: readonly [string, string] | null = null;
  let family: Family | null = null;
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind === 'HELP') help = [name, rest];
    else if (kind === 'TYPE') {
      if (help?.[0] !== name || families.has(name)) throw new Error(`out of place: ${line}`);
      family = { name, type: rest, help: help[1], samples: [] };
      families.set(name, family);
    } else family?.samples.push(readSample(line, family));
  }
  return families;
}

function readSample(line: string, { name, type }: Family): Sample {
  const [, of = '', labels = '', value = ''] = LINE.exec(line) ?? [];
  if (of.replace(SUFFIXES[type] ?? /$^/, '') !== name) throw new Error(`out of place: ${line}`);
  const number = value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value);
  if (value === '' || Number.isNaN(number)) throw new Error(`no value: ${line}`);
  return { name: of, labels: readLabels(labels, line), value: number };
}

function readLabels(text: string, line: string): Record<string, string> {
  const found = [...text.matchAll(LABEL)];
  if (found.reduce((length, [all]) => length + all.length, 0) !== text.length) {
    throw new Error(`no labels: ${line}`);
  }
  return Object.fromEntries(found.map(([, name = '', value = '']) => [name, value]));
}

/** The findings of Prometheus's linter: base units in the plural, suffixes that match the type, bounded text. */
export function lint(families: Iterable<Family>): string[] {
  const said: string[] = [];
  for (const { name, type, help, samples } of families) {
    const say = (what: string) => said.push(`${name}: ${what}`);
    if (!NAME.test(name)) say('not in lower case with underscores');
    if (help === '') say('no help');
    if (name.endsWith('_total') !== (type === 'counter')) say(`a ${type}`);
    if (/_(milliseconds|ms|minutes|hours|kilobytes|megabytes|percent)(_|$)/.test(name)) {
      say('not in a base unit');
    }
    if (/_(counter|gauge|histogram|count|sum|bucket)$/.test(name)) say('its type is in its name');
    const seen = new Set(samples.map((sample) => JSON.stringify([sample.name, sample.labels])));
    if (seen.size !== samples.length) say('a sample comes twice');
    for (const label of samples.flatMap(({ labels }) => Object.keys(labels))) {
      if (!NAME.test(label)) say(`label ${label}`);
    }
    if (type === 'histogram') said.push(...lintHistogram(name, samples));
  }
  return said;
}

function lintHistogram(name: string, samples: readonly Sample[]): string[] {
  const buckets = samples.filter((sample) => sample.name.endsWith('_bucket'));
  const count = samples.find((sample) => sample.name.endsWith('_count'));
  const last = buckets.at(-1);
  const rising = buckets.every(({ value }, i) => value >= (buckets[i - 1]?.value ?? 0));
  if (rising && last?.labels.le === '+Inf' && last.value === count?.value) return [];
  return [`${name}: its buckets do not add up`];
}
