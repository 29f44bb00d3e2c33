/**
 * Owns the question how many cells of other people's PDF tables stand beside their neighbours, here and in other readers.
 * It must never hold a document or its truth: both are what the machine has, in the form of the ICDAR 2013 competition.
 *
 * `node dist/bench/table-cells.js FOLDER` prints a table; beside each PDF lies its truth, `NAME-str.xml`. PYTHON names the Python that
 * has pymupdf4llm and markitdown.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { unescapedXml } from '../src/store/s3-xml.js';
import { type Readings, readHere, readWithPython } from './support/pdf-readings.js';

const WORST_LISTED = 20;
/** By row and column; empty where another cell reaches into it, or nothing stands. */
type Grid = readonly (readonly string[])[];
/** How often each pair of neighbours is there. */
type Pairs = ReadonlyMap<string, number>;

/** Letters and signs alone: readers differ in spaces and in marks of bold type. */
function plain(text: string): string {
  return text
    .replace(/<br>|&nbsp;|[\s*_`\\\u00ad]/g, '')
    .replace(/[\u2010-\u2015\u2212]/g, '-')
    .replace(/[\u2018\u2019\u201a]/g, "'")
    .replace(/[\u201c\u201d\u201e]/g, '"')
    .normalize('NFKC');
}

/** Tables of the truth; a cell over several places stands in the first. */
function trueTables(xml: string): Grid[] {
  return [...xml.matchAll(/<region\b[^>]*>(.*?)<\/region>/gs)].map(([, region = '']) => {
    const rows: string[][] = [];
    for (const [, facts = '', cell = ''] of region.matchAll(/<cell\b([^>]*)>(.*?)<\/cell>/gs)) {
      const number = (name: string) =>
        Number(new RegExp(`${name}=["'](\\d+)`).exec(facts)?.[1] ?? 0);
      const [, content = ''] = /<content[^>]*>(.*?)<\/content>/s.exec(cell) ?? [];
      const row = rows[number('start-row')] ?? [];
      rows[number('start-row')] = row;
      row[number('start-col')] = plain(unescapedXml(content));
    }
    return Array.from(rows, (row) => Array.from(row ?? [], (text) => text ?? ''));
  });
}

/** Lines with tabs or bars, one below the other. */
function readTables(text: string): Grid[] {
  const tables: string[][][] = [];
  let open: string[][] | null = null;
  for (const line of text.split(/[\n\f]/)) {
    const cells = cellsOf(line);
    if (cells === null) open = null;
    else if (open !== null && !isRule(cells)) open.push(cells);
    else if (open === null) {
      open = [cells];
      tables.push(open);
    }
  }
  return tables;
}

/** Below the first row of a table in Markdown. */
function isRule(cells: readonly string[]): boolean {
  return cells.every((cell) => /^:?-+:?$/.test(cell));
}

function cellsOf(line: string): string[] | null {
  const trimmed = line.trim();
  if (/^\|.*\|$/.test(trimmed))
    return trimmed
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map(plain);
  return trimmed.includes('\t') ? line.split('\t').map(plain) : null;
}

/** Each text with the next one to its right, and the next one below it. */
function pairsOf(tables: readonly Grid[]): Pairs {
  const pairs = new Map<string, number>();
  const add = (kind: string, one: string, other: string | undefined) => {
    if (other === undefined) return;
    const key = `${kind} ${one}\n${other}`;
    pairs.set(key, (pairs.get(key) ?? 0) + 1);
  };
  for (const rows of tables) {
    for (const [at, row] of rows.entries()) {
      for (const [column, text] of row.entries()) {
        if (text === '') continue;
        add(
          'right',
          text,
          row.slice(column + 1).find((next) => next !== ''),
        );
        const below = rows.slice(at + 1).map((next) => next[column] ?? '');
        add(
          'below',
          text,
          below.find((next) => next !== ''),
        );
      }
    }
  }
  return pairs;
}

const sizeOf = (pairs: Pairs) => [...pairs.values()].reduce((sum, count) => sum + count, 0);

function commonOf(one: Pairs, other: Pairs): number {
  return [...one].reduce((sum, [pair, count]) => sum + Math.min(count, other.get(pair) ?? 0), 0);
}

interface Found {
  readonly name: string;
  readonly wanted: number;
  readonly read: number;
  readonly right: number;
}

function foundIn(readings: Readings, truth: ReadonlyMap<string, Pairs>): Found[] {
  return [...truth].map(([path, wanted]) => {
    const read = pairsOf(readTables(readings.get(path)?.text ?? ''));
    const [name = ''] = path.split('/').slice(-1);
    return { name, wanted: sizeOf(wanted), read: sizeOf(read), right: commonOf(wanted, read) };
  });
}

const share = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);

function rowOf(reader: string, readings: Readings, found: readonly Found[]): string {
  const sum = (of: (each: Found) => number) => found.reduce((all, each) => all + of(each), 0);
  const [right, wanted, read] = [sum((f) => f.right), sum((f) => f.wanted), sum((f) => f.read)];
  const mean = sum((f) => share(f.right, f.wanted)) / found.length;
  const shares = [right / wanted, mean, share(right, read)].map((each) => each.toFixed(3));
  return `| ${[reader, readings.size, ...shares].join(' | ')} |`;
}

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node dist/bench/table-cells.js FOLDER');
const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
const truth = new Map<string, Pairs>();
for (const name of names.filter((each) => each.endsWith('.pdf'))) {
  const path = join(folder, name);
  const xml = path.replace(/\.pdf$/, '-str.xml');
  if (existsSync(xml)) truth.set(path, pairsOf(trueTables(readFileSync(xml, 'utf8'))));
}
const paths = [...truth.keys()];
console.log(
  `${paths.length} documents, ${[...truth.values()].reduce((sum, pairs) => sum + sizeOf(pairs), 0)} pairs of neighbours\n`,
);
console.log('| reader | read | pairs found | mean of documents | right among those read |');
console.log('|---|---|---|---|---|');
const here = await readHere(paths);
const found = foundIn(here, truth);
console.log(rowOf('preface', here, found));
for (const reader of ['pymupdf4llm', 'markitdown']) {
  const readings = readWithPython(reader, paths);
  if (readings === null) console.log(`${reader} is not installed, or failed.`);
  else console.log(rowOf(reader, readings, foundIn(readings, truth)));
}
const worst = found.toSorted((a, b) => share(a.right, a.wanted) - share(b.right, b.wanted));
for (const { name, right, wanted } of worst.slice(0, WORST_LISTED))
  console.log(`- ${name} ${right} of ${wanted}`);
