/**
 * Owns the cells of one sheet until they are lines: a row a line, cells parted by tabs.
 * It must never cost more than the cells that hold something, whatever size the sheet claims.
 */
import { refusal } from '../shared/refusal.js';

export class Grid {
  readonly #lengthMax: number;
  #length = 0;
  readonly #columns = new Set<number>();
  readonly #rows = new Map<number, Map<number, string>>();

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
  }

  put(row: number, column: number, text: string): void {
    const line = text.replace(/\s+/g, ' ').trim();
    if (line === '') return;
    this.#count(line.length + 1);
    this.#columns.add(column);
    const cells = this.#rows.get(row);
    if (cells === undefined) this.#rows.set(row, new Map([[column, line]]));
    else cells.set(column, line);
  }

  /** Empty columns and rows are left out. */
  text(): string {
    const order = [...this.#columns].sort((a, b) => a - b);
    const places = new Map(order.map((column, place) => [column, place]));
    const lines: string[] = [];
    for (const row of [...this.#rows.keys()].sort((a, b) => a - b)) {
      lines.push(this.#line(this.#rows.get(row) ?? new Map(), places));
    }
    return lines.join('\n');
  }

  #line(cells: ReadonlyMap<number, string>, places: ReadonlyMap<number, number>): string {
    let line = '';
    let place = 0;
    for (const column of [...cells.keys()].sort((a, b) => a - b)) {
      const to = places.get(column) ?? place;
      this.#count(to - place);
      line += '\t'.repeat(to - place) + (cells.get(column) ?? '');
      place = to;
    }
    return line;
  }

  #count(length: number): void {
    this.#length += length;
    if (this.#length > this.#lengthMax) {
      throw refusal('bound', `it has more than ${this.#lengthMax} characters of text`);
    }
  }
}

/** A page of a sheet: its name, then its rows. */
export function sheetPage(name: string, grid: Grid): string {
  const rows = grid.text();
  return rows === '' ? '' : `# ${name}\n\n${rows}`;
}
