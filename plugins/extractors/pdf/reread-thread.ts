/**
 * Owns pdf2json, in a thread of its own: the texts of all pages.
 * It must never choose between readings, or run on a thread that an endless loop may not block.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { Output, Page } from 'pdf2json';

interface Question {
  readonly bytes: Uint8Array;
  readonly port: MessagePort;
}

// Read when its module is loaded; otherwise it writes what it finds to the process's output.
process.env.PDF2JSON_DISABLE_LOGS = '1';
// The library prints whatever it fails on; a document must not write to the log.
const silent = () => {};
Object.assign(console, { log: silent, warn: silent, error: silent });
const { default: PDFParser } = await import('pdf2json');

parentPort?.on('message', ({ bytes, port }: Question) => {
  void read(bytes).then((pages) => port.postMessage(pages));
});

async function read(bytes: Uint8Array): Promise<string[] | null> {
  const output = await parse(bytes);
  return output?.Pages.map(textOf) ?? null;
}

async function parse(bytes: Uint8Array): Promise<Output | null> {
  const parser = new PDFParser();
  try {
    return await new Promise<Output | null>((resolve) => {
      parser.on('pdfParser_dataError', () => resolve(null));
      parser.on('pdfParser_dataReady', resolve);
      // The library reads the whole memory behind a buffer; a copy contains the document alone.
      parser.parseBuffer(Buffer.from(new Uint8Array(bytes).buffer), 0);
    });
  } catch {
    return null;
  } finally {
    parser.removeAllListeners();
    parser.destroy();
  }
}

/** Page units; widths of runs are sixteenths of them. */
const LINE_DISTANCE = 0.35;
const WORD_GAP = 0.12;
const CELL_GAP = 1.2;
const WIDTH_UNITS = 16;

function textOf(page: Page): string {
  let text = '';
  let last: Page['Texts'][number] | null = null;
  for (const run of page.Texts) {
    if (last !== null) text += between(last, run);
    text += run.R.map(({ T }) => decoded(T)).join('');
    last = run;
  }
  return text.trim();
}

function between(last: Page['Texts'][number], next: Page['Texts'][number]): string {
  if (Math.abs(next.y - last.y) > LINE_DISTANCE) return '\n';
  const gap = next.x - (last.x + last.w / WIDTH_UNITS);
  if (gap > CELL_GAP) return '\t';
  return gap > WORD_GAP ? ' ' : '';
}

/** Some versions of the library percent-encode text, others do not. */
function decoded(text: string): string {
  try {
    return /%[0-9A-F]{2}/.test(text) ? decodeURIComponent(text) : text;
  } catch {
    return text;
  }
}
