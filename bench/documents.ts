/**
 * Owns the question how many words of other people's documents are found, format by format, with the worst named.
 * It must never hold a document: it reads those of a folder, which stays where it is.
 *
 * `node dist/bench/documents.js FOLDER [ENDING …]` prints a table. Pictures are left alone: independent readers see none.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasProgram } from './support/documents.js';
import { PoiReader } from './support/poi.js';
import { ReadingProcess } from './support/reading.js';
import { compareWords } from './support/words.js';

const REFERENCE = fileURLToPath(new URL('../../bench/support/reference.py', import.meta.url));
const python = (path: string) => ['python3', REFERENCE, path];
const POI = 'poi';
type Command = (path: string) => readonly string[];

const readers: Readonly<Record<string, Command | typeof POI>> = {
  pdf: (path) => ['pdftotext', path, '-'],
  doc: POI,
  ppt: POI,
  xls: POI,
  ...Object.fromEntries(
    'docx docm pptx pptm xlsx xlsm odt ods odp html htm epub eml'
      .split(' ')
      .map((ending) => [ending, python]),
  ),
};
/** Fewer words say nothing of a reader. */
const WORDS_MIN = 5;
/** The first answer of POI takes its start, too. */
const REFERENCE_MS_MAX = 60_000;
const WORST = 5;
const WORST_LISTED = 20;

interface Compared {
  readonly name: string;
  readonly found: number;
  readonly precise: number;
  readonly ordered: number;
  readonly words: number;
}

interface Format {
  readonly compared: Compared[];
  /** Documents that the other reader does not read, or finds no words in. */
  alone: number;
  /** Refused here though the other reader finds words, with the reasons. */
  readonly refused: string[];
  ms: number;
}

export function documentsMarkdown(formats: ReadonlyMap<string, Format>): string {
  const rows = [...formats].map(([ending, { compared, alone, refused, ms }]) => {
    const words = compared.reduce((sum, each) => sum + each.words, 0);
    const mean = (of: (each: Compared) => number) =>
      compared.reduce((sum, each) => sum + of(each) * each.words, 0) / Math.max(1, words);
    const whole = compared.filter(({ found }) => found >= 0.99).length;
    const cells = [
      ending,
      String(compared.length),
      mean(({ found }) => found).toFixed(4),
      mean(({ precise }) => precise).toFixed(4),
      mean(({ ordered }) => ordered).toFixed(3),
      String(whole),
      String(refused.length),
      String(alone),
      (ms / Math.max(1, compared.length + refused.length + alone)).toFixed(0),
      worstOf(compared).slice(0, WORST).map(worstCell).join(', '),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return [
    '| format | compared | words found | of the words here | in order | with 99 % or more | refused here alone | not compared | ms each | worst |',
    '|---|---|---|---|---|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

function worstOf(compared: readonly Compared[]): Compared[] {
  return compared.filter(({ found }) => found < 0.99).sort((a, b) => a.found - b.found);
}

function worstCell({ name, found }: Compared): string {
  return `${name} ${found.toFixed(2)}`;
}

/** To read them: most losses are the other reader's. */
function worstLines({ compared, refused }: Format): string[] {
  const worst = worstOf(compared).slice(0, WORST_LISTED);
  const found = worst.map((each) => `${worstCell(each)} of ${each.words} words`);
  return [...refused, ...found].map((line) => `- ${line}`);
}

export async function compareDocuments(
  folder: string,
  endings: readonly string[],
): Promise<Map<string, Format>> {
  const service = await ReadingProcess.start({ reader: 'service', processes: 1 });
  const poi = new PoiReader();
  const formats = new Map<string, Format>();
  try {
    for (const name of readdirSync(folder).sort()) {
      const ending = extname(name).slice(1).toLowerCase();
      const reader = readers[ending];
      if (reader === undefined || (endings.length > 0 && !endings.includes(ending))) continue;
      const format = formats.get(ending) ?? { compared: [], alone: 0, refused: [], ms: 0 };
      formats.set(ending, format);
      const path = join(folder, name);
      const wanted = reader === POI ? await poi.text(path, REFERENCE_MS_MAX) : textOf(reader(path));
      await compareOne(service, path, name, wanted, format);
    }
  } finally {
    await poi.close();
    await service.close();
  }
  return formats;
}

async function compareOne(
  service: ReadingProcess,
  path: string,
  name: string,
  wanted: string | null,
  format: Format,
): Promise<void> {
  const { texts, failures, ms } = await service.read({ paths: [path], languages: [] });
  format.ms += ms;
  const words = wanted?.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;
  if (wanted === null || words < WORDS_MIN) format.alone += 1;
  else if (failures.length > 0) format.refused.push(`${name}: ${failures[0]}`);
  else format.compared.push({ name, words, ...compareWords(texts.join('\f'), wanted) });
}

/** Null where it does not read the document. */
function textOf([program = '', ...args]: readonly string[]): string | null {
  const options = { encoding: 'utf8', maxBuffer: 2 ** 28, timeout: REFERENCE_MS_MAX } as const;
  const { stdout, status } = spawnSync(program, args, options);
  return status === 0 ? stdout : null;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, ...endings] = process.argv.slice(2);
  if (folder === undefined)
    throw new Error('usage: node dist/bench/documents.js FOLDER [ENDING …]');
  const missing = ['pdftotext', 'java', 'python3'].filter((each) => !hasProgram(each));
  for (const program of missing) console.log(`${program} is not installed.`);
  const formats = await compareDocuments(folder, endings);
  console.log(documentsMarkdown(formats));
  for (const format of formats.values()) console.log(worstLines(format).join('\n'));
}
