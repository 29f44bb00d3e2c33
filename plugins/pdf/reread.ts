/**
 * Owns pdf2json: a second reading of pages whose first one is in doubt, and of what is filled into forms.
 * It must never be the only reader: where it breaks, its answer is that it has none.
 */
import type { Output, Page } from 'pdf2json';

export interface RereadPage {
  readonly text: string;
  /** Filled-in fields: `name: value`. */
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

/** It parses all pages before it says anything: what is larger is left to the first reading. */
const REREAD_BYTES_MAX = 32 * 1024 * 1024;
const REREAD_PAGES_MAX = 500;
const REREAD_MS_MAX = 20_000;

/** All pages in order, or null where pdf2json cannot read the document. */
export async function rereadPdf(bytes: Uint8Array, pages: number): Promise<RereadPage[] | null> {
  if (bytes.length > REREAD_BYTES_MAX || pages > REREAD_PAGES_MAX) return null;
  const output = await parse(bytes);
  return output?.Pages.map((page) => ({ text: textOf(page), fields: fieldsOf(page) })) ?? null;
}

async function parse(bytes: Uint8Array): Promise<Output | null> {
  // Read when its module is loaded; otherwise it writes what it finds to the process's output.
  process.env.PDF2JSON_DISABLE_LOGS = '1';
  const { default: PDFParser } = await import('pdf2json');
  const parser = new PDFParser();
  const speak = hush();
  try {
    return await new Promise<Output | null>((resolve) => {
      const timer = setTimeout(() => resolve(null), REREAD_MS_MAX);
      const end = (output: Output | null) => {
        clearTimeout(timer);
        resolve(output);
      };
      parser.on('pdfParser_dataError', () => end(null));
      parser.on('pdfParser_dataReady', end);
      // It looks at the whole memory behind a buffer: a copy has nothing else there.
      parser.parseBuffer(Buffer.from(new Uint8Array(bytes).buffer), 0);
    });
  } catch {
    return null;
  } finally {
    speak();
    parser.removeAllListeners();
    parser.destroy();
  }
}

/** What it breaks on it prints whole, whatever it is told: a document must not write the log. */
function hush(): () => void {
  const { log, warn, error } = console;
  const silent = () => {};
  Object.assign(console, { log: silent, warn: silent, error: silent });
  return () => Object.assign(console, { log, warn, error });
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

/** Some versions escape as in addresses, others do not. */
function decoded(text: string): string {
  try {
    return /%[0-9A-F]{2}/.test(text) ? decodeURIComponent(text) : text;
  } catch {
    return text;
  }
}

function fieldsOf(page: Page): { name: string; value: string }[] {
  const fields = page.Fields.map((field) => ({
    name: (field.TU || field.id.Id).trim(),
    value: valueText((field as { V?: unknown }).V),
  }));
  return fields.filter(({ value }) => value !== '');
}

function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).filter(Boolean).join(', ');
  return typeof value === 'string' || typeof value === 'number'
    ? decoded(String(value)).trim()
    : '';
}
