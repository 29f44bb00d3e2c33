/**
 * Owns the question how many documents that mislead a reader come back as text that is none: turned, skewed, mirrored,
 * stamped, faint and misnamed ones, made at run time from sound documents of a folder.
 * It must never hold a document, or judge by what the reader says of itself: it counts the words that the page shows.
 *
 * `node dist/bench/misleading.js FOLDER [PAGES [SEED]]` prints a table, and meanwhile what each document came to. PYTHON names the Python that has pymupdf, pillow and numpy.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ReadingProcess } from './support/reading.js';
import { compareWords } from './support/words.js';

interface Misleading {
  readonly path: string;
  readonly kind: string;
  /** What the page shows; null: what a sound document shows when it is read. */
  readonly truth: string | null;
  /** That document. Null where nobody can read what is made of it: to refuse it is right. */
  readonly like: string | null;
}

interface Kind {
  made: number;
  refused: number;
  garbage: number;
  /** Sums over those that are read. */
  found: number;
  precise: number;
  readonly worst: string[];
}

/** Of the words that are read: fewer that the page shows make it garbage. */
const PRECISE_MIN = 0.5;
/** Fewer words are no text to speak of. */
const WORDS_MIN = 5;
const PAGES = 8;
const SEED = 17;
const script = fileURLToPath(new URL('../../bench/support/misleading.py', import.meta.url));

function make(folder: string, out: string, pages: number, seed: number): Misleading[] {
  const args = [script, folder, out, String(pages), String(seed)];
  const options = { encoding: 'utf8', maxBuffer: 2 ** 28 } as const;
  const { stdout, stderr, status } = spawnSync(process.env.PYTHON ?? 'python3', args, options);
  if (status !== 0) throw new Error(`it needs pymupdf, pillow and numpy: ${stderr}`);
  return JSON.parse(stdout) as Misleading[];
}

class Judge {
  readonly kinds = new Map<string, Kind>();
  /** By path. */
  readonly #sound = new Map<string, string | null>();

  constructor(private readonly service: ReadingProcess) {}

  /** Returns what the document came to. */
  async judge({ path, kind, truth, like }: Misleading): Promise<string> {
    const shown = truth ?? (like === null ? '' : await this.#soundText(like));
    // A document that nobody reads tells nothing of its copies.
    if (shown === null) return 'not read when it was sound';
    const row = this.#rowOf(kind);
    row.made += 1;
    const text = await this.#read(path);
    if (text === null) {
      row.refused += 1;
      return 'refused';
    }
    const { found, precise } = compareWords(text, shown);
    row.found += Number.isNaN(found) ? 0 : found;
    row.precise += precise;
    const words = text.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;
    if (words < WORDS_MIN || precise >= PRECISE_MIN) return `right ${precise.toFixed(2)}`;
    row.garbage += 1;
    row.worst.push(
      `${path} (${kind}, of ${like}): ${words} words, right are ${precise.toFixed(2)}: `,
    );
    row.worst.push(JSON.stringify(text.slice(0, 200)));
    return 'garbage';
  }

  #rowOf(kind: string): Kind {
    const empty = { made: 0, refused: 0, garbage: 0, found: 0, precise: 0, worst: [] };
    const row = this.kinds.get(kind) ?? empty;
    this.kinds.set(kind, row);
    return row;
  }

  async #soundText(path: string): Promise<string | null> {
    const known = this.#sound.get(path);
    if (known !== undefined) return known;
    const text = await this.#read(path);
    this.#sound.set(path, text);
    return text;
  }

  async #read(path: string): Promise<string | null> {
    const { texts, failures } = await this.service.read({ paths: [path], languages: ['eng'] });
    return failures.length > 0 ? null : (texts[0] ?? '');
  }
}

function lineOf([kind, { made, refused, garbage, found, precise }]: [string, Kind]): string {
  const read = made - refused;
  const mean = (sum: number) => (read === 0 ? '' : (sum / read).toFixed(3));
  return `| ${[kind, made, refused, garbage, mean(found), mean(precise)].join(' | ')} |`;
}

const [folder, pages = String(PAGES), seed = String(SEED)] = process.argv.slice(2);
if (folder === undefined) {
  throw new Error('usage: node dist/bench/misleading.js FOLDER [PAGES [SEED]]');
}
const out = mkdtempSync(join(tmpdir(), 'preface-bench-'));
const service = await ReadingProcess.start({ reader: 'service', processes: 1 });
try {
  const judge = new Judge(service);
  const made = make(folder, join(out, 'made'), Number(pages), Number(seed));
  for (const [at, each] of made.entries()) {
    const startedMs = performance.now();
    const outcome = await judge.judge(each);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    // A scan takes seconds, and there are hundreds.
    console.error(`${at + 1} of ${made.length}: ${each.kind}: ${outcome}, ${seconds} s`);
  }
  console.log('| made | documents | refused | garbage | words found | right |');
  console.log('|---|---|---|---|---|---|');
  console.log([...judge.kinds].map(lineOf).join('\n'));
  const garbage = [...judge.kinds.values()].flatMap(({ worst }) => worst);
  console.log(garbage.map((line) => `- ${line}`).join('\n'));
} finally {
  await service.close();
  rmSync(out, { recursive: true, force: true });
}
