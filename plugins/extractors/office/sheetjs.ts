/**
 * Owns the one door to SheetJS: numbers as a sheet displays them, and workbooks in the binary format of before 2007.
 * It must never be given a raw archive or container: their cost is bounded before this point.
 */
import { CFB, read, SSF } from '@e965/xlsx';
import type { ExtractionBounds } from 'preface/plugin';
import { refusal } from '../shared/refusal.js';
import { Grid } from './grid.js';

/** A number by its format, a code or the number of a built-in one, as the sheet shows it. */
export function displayed(value: number, format: string | number, date1904: boolean): string {
  try {
    return String(SSF.format(format, value, { date1904 })).trim();
  } catch {
    return String(value);
  }
}

export interface ReadSheet {
  readonly name: string;
  readonly grid: Grid;
  /** Sheets of the workbook. */
  readonly pages: number;
}

/** A sound container of these streams, for parsers that would follow a chain of sectors for ever. */
export function writeOle(streams: Readonly<Record<string, Buffer>>): Buffer {
  const container = CFB.utils.cfb_new();
  for (const [name, bytes] of Object.entries(streams)) CFB.utils.cfb_add(container, name, bytes);
  return Buffer.from(CFB.write(container, { type: 'buffer' }) as Buffer);
}

/** @throws what SheetJS throws on a damaged workbook, or one with a password. */
export function readBinaryWorkbook(
  workbook: Buffer,
  { pagesMax, textLengthMax }: ExtractionBounds,
): Iterable<ReadSheet> {
  const { SheetNames, Sheets } = read(writeOle({ Workbook: workbook }), {
    type: 'buffer',
    dense: true,
    cellFormula: false,
    cellHTML: false,
    cellStyles: false,
    bookVBA: false,
  });
  const pages = SheetNames.length;
  if (pages > pagesMax) throw refusal('bound', `it has more than ${pagesMax} sheets`);
  const rowsOf = (name: string) =>
    (Sheets[name] as { '!data'?: Rows } | undefined)?.['!data'] ?? [];
  return (function* () {
    for (const name of SheetNames) yield { name, grid: gridOf(rowsOf(name), textLengthMax), pages };
  })();
}

type Rows = Readonly<Record<number, Readonly<Record<number, Cell>> | undefined>>;

/** Iterates over the cells' keys: the range that a sheet claims may be the largest possible one. */
function gridOf(rows: Rows, lengthMax: number): Grid {
  const grid = new Grid(lengthMax);
  for (const [row, cells] of Object.entries(rows)) {
    for (const [column, cell] of Object.entries(cells ?? {})) {
      grid.put(Number(row), Number(column), textOf(cell));
    }
  }
  return grid;
}

interface Cell {
  readonly t?: string;
  readonly v?: unknown;
  readonly w?: string;
}

function textOf({ t, v, w }: Cell): string {
  if (t === 's' && typeof v === 'string') return v;
  return (w ?? (v === undefined || v === null ? '' : String(v))).trim();
}
