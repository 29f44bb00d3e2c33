/**
 * Owns a process that reads documents on request: as the service does, or with the bare library, which is the floor.
 * It must never give one side extra work, except the work that the service adds to the library's.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { systemClock } from '../../src/clock.js';
import { limits } from '../../src/limits/index.js';
import { type Extraction, ExtractionPool } from '../../src/pool/extraction.js';
import { choosePictureProgram } from '../../src/pool/picture-program.js';
import { findWalls } from '../../src/pool/walls.js';
import { pluginFinder } from '../../src/settings/plugins.js';
import type { ReadDone, ReadMode, ReadTask, ReadTexts } from './reading.js';

const mode = JSON.parse(process.argv[2] ?? '') as ReadMode;
const folder = mkdtempSync(join(tmpdir(), 'preface-bench-'));
let pool: { readonly key: string; readonly extraction: Extraction } | null = null;

process.on('message', (task: ReadTask) => {
  const before = process.cpuUsage();
  const reading = mode.reader === 'pdf2json' ? readWithLibrary(task) : readWithService(task);
  void reading.then((done) => {
    const { user, system } = process.cpuUsage(before);
    process.send?.({ ...done, ownCpuS: (user + system) / 1e6 } satisfies ReadDone);
  });
});
process.on('disconnect', () => process.exit());
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
process.send?.('ready');

async function readWithService({ paths, languages }: ReadTask): Promise<ReadTexts> {
  const { extraction } = await poolOf(languages);
  const read = paths.map(async (source, at) => {
    const target = join(folder, `${at}.json`);
    rmSync(target, { force: true });
    const task = { source, filename: basename(source), target, owner: 'bench' };
    const result = await extraction.extract(task);
    if (result.type === 'refused') return { pages: 0, text: '', failure: result.reason };
    const text = JSON.parse(readFileSync(target, 'utf8')) as string;
    return { pages: result.document.pages, text, failure: null };
  });
  return doneOf(await Promise.all(read));
}

async function poolOf(languages: readonly string[]): Promise<{ readonly extraction: Extraction }> {
  const key = languages.join('+');
  if (pool?.key === key) return pool;
  await pool?.extraction.close();
  const { languagesFolder = null, byProgram = false } = mode;
  const walls = await findWalls({
    modules: [],
    readable: languagesFolder === null ? [] : [languagesFolder],
    hidden: [],
    memoryBytesMax: limits.extractionMemoryBytesMax,
  });
  const { program: pictureProgram } = await choosePictureProgram(
    {
      ocrProgram: byProgram ? 'required' : 'off',
      ocrLanguages: languages,
      ocrData: languagesFolder,
    },
    { walls },
  );
  const extraction = new ExtractionPool({
    processes: mode.processes,
    walls,
    pictureProgram,
    languagesFolder,
    extractors: pluginFinder.builtIns('extractor'),
    languages,
    clock: systemClock,
    log: (line) => console.error(line),
  });
  pool = { key, extraction };
  return pool;
}

/** Joins the text of all pages, since pages alone would be less work than the service does. */
async function readWithLibrary({ paths }: ReadTask): Promise<ReadTexts> {
  process.env.PDF2JSON_DISABLE_LOGS = '1';
  const { default: PDFParser } = await import('pdf2json');
  const read = [];
  for (const path of paths) {
    const bytes = new Uint8Array(readFileSync(path));
    const parser = new PDFParser();
    read.push(
      await new Promise<Read>((resolve) => {
        const fail = (cause: unknown) => resolve({ pages: 0, text: '', failure: String(cause) });
        parser.on('pdfParser_dataError', fail);
        parser.on('pdfParser_dataReady', ({ Pages }) => {
          const runs = Pages.map(({ Texts }) =>
            Texts.flatMap(({ R }) => R.map(({ T }) => T)).join(' '),
          );
          resolve({ pages: Pages.length, text: runs.join('\f'), failure: null });
        });
        parser.parseBuffer(Buffer.from(bytes.buffer), 0);
      }),
    );
    parser.removeAllListeners();
    parser.destroy();
  }
  return doneOf(read);
}

interface Read {
  readonly pages: number;
  readonly text: string;
  readonly failure: string | null;
}

function doneOf(read: readonly Read[]): ReadTexts {
  return {
    pages: read.reduce((sum, { pages }) => sum + pages, 0),
    texts: read.map(({ text }) => text),
    failures: read.flatMap(({ failure }) => (failure === null ? [] : [failure])),
  };
}
