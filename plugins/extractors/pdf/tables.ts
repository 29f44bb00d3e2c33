/**
 * Owns tables that are drawn with lines: which cells the rules of a page make, and which characters stand in which.
 * It must never change a character, nor take a frame around text, a form's boxes or the grid of a chart for a table.
 */
import { areaOf, type Box, holds } from './areas.js';
import type { PageChar } from './page-char.js';
import { alongLines } from './turns.js';

/** A line that is drawn, along one axis: `at` on the other one. In points. */
export interface Rule {
  readonly at: number;
  readonly from: number;
  readonly to: number;
}

export interface Rules {
  /** From left to right, each at its height. */
  readonly across: readonly Rule[];
  /** From bottom to top. */
  readonly upright: readonly Rule[];
}

export interface PageRules {
  readonly drawn: Rules;
  /** Edges of areas: a cell and each paragraph in it may have one of its own, so they count where nothing is drawn. */
  readonly shaded: Rules;
}

export const NO_RULES: PageRules = {
  drawn: { across: [], upright: [] },
  shaded: { across: [], upright: [] },
};

/** Rules that lie so near are one, and ends that lie so near to a rule touch it. */
const NEAR = 2.5;
/** A page with more is a drawing. */
const RULES_MAX = 1_500;
const TABLES_MAX = 100;
const CELLS_MAX = 20_000;
/** A cell that holds more is a column of a page, or a box around a part of it. */
const CELL_CHARS_MAX = 800;
/** As a share of the cells: where fewer hold something the grid is that of a chart or a form. */
const FILLED_MIN = 0.25;
/** As a factor of their height: letters of a word are so near, and lie no further over each other. */
const TOUCHING = 0.1;
const OVER = 0.3;
/** Words that reach over the edge of a cell: some are too long for it, but where there are more, as a share of the characters, the lines belong to a drawing. */
const CUTS_ALLOWED = 2;
const CUT_SHARE_MAX = 0.01;

export interface Table {
  /** In the order of `chars`, the first one that stands in it. */
  readonly first: number;
  /** By row and column. The first of several places that are one cell has what stands in it, the others nothing. */
  readonly rows: readonly (readonly (readonly PageChar[])[])[];
}

export interface Parted {
  readonly tables: readonly Table[];
  /** Of each character, whether it stands in a table; empty where there is none. */
  readonly inTable: readonly boolean[];
}

const NO_TABLES: Parted = { tables: [], inTable: [] };

/** @param chars of a page, in the order in which it draws them. */
export function partTables(chars: readonly PageChar[], { drawn, shaded }: PageRules): Parted {
  const ruled = gridsOf(drawn);
  const grids = ruled.length > 0 ? ruled : gridsOf(both(drawn, shaded));
  if (grids.length === 0) return NO_TABLES;
  const fills = grids.map((grid) => new Fill(grid));
  let last: Fill | undefined;
  const places = chars.map((char, index) => {
    // Of a space only its place in the order is known.
    if (char.code > SPACE) last = fills.find((fill) => holds(fill.grid.box, char));
    last?.add(index, char);
    return last;
  });
  const tables = new Map(fills.map((fill) => [fill, fill.table()]));
  const found = [...tables.values()].filter((table) => table !== null);
  const inTable = places.map((fill) => fill !== undefined && tables.get(fill) !== null);
  return { tables: found.sort((a, b) => a.first - b.first), inTable };
}

const SPACE = 0x20;
const LINE_END = 0x0a;

/** The lines between the rows and between the columns of a table, and which places are one cell. */
interface Grid {
  readonly box: Box;
  /** From left to right. */
  readonly xs: readonly number[];
  /** From top to bottom. */
  readonly ys: readonly number[];
  /** Of each place, row by row: the first place of its cell. */
  readonly cells: readonly number[];
}

class Fill {
  readonly #held = new Map<number, PageChar[]>();
  #first = -1;
  #turned = 0;
  #count = 0;
  /** Of the last character that is drawn. */
  #cell = 0;
  /** Null where a space follows it. */
  #last: PageChar | null = null;
  #cuts = 0;
  /** The last character stands beyond the cell in which its word begins. */
  #isBeyond = false;

  constructor(readonly grid: Grid) {}

  add(index: number, char: PageChar): void {
    if (char.code > SPACE) {
      if (this.#first === -1) this.#first = index;
      this.#count += 1;
      if (char.turn !== undefined) this.#turned += 1;
      const cell = this.#cellOf(char);
      if (cell === this.#cell) this.#isBeyond = false;
      else this.#enter(cell, char);
    }
    this.#last = char.code > SPACE ? char : null;
    const held = this.#held.get(this.#cell) ?? [];
    held.push(char);
    this.#held.set(this.#cell, held);
  }

  #enter(cell: number, char: PageChar): void {
    // A word that is too long for its cell stays whole.
    if (this.#last !== null && isOneWord(...alongLines(this.#last, char))) {
      if (!this.#isBeyond) this.#cuts += 1;
      this.#isBeyond = true;
      return;
    }
    this.#isBeyond = false;
    // What lies between two lines of a cell may be that of the cells beside it.
    this.#held.get(cell)?.push({ ...char, code: LINE_END });
    this.#cell = cell;
  }

  #cellOf({ left, right, top, bottom }: PageChar): number {
    const { xs, ys, cells } = this.grid;
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    const column = lastWhere(xs.length - 1, (at) => (xs[at] ?? 0) <= x);
    const row = lastWhere(ys.length - 1, (at) => (ys[at] ?? 0) >= y);
    return cells[row * (xs.length - 1) + column] ?? 0;
  }

  /** Null for what is none. */
  table(): Table | null {
    const { xs, ys, cells } = this.grid;
    const columns = xs.length - 1;
    const cellCount = new Set(cells).size;
    const isTurned = this.#turned > this.#count / 2;
    const isSparse = this.#held.size < cellCount * FILLED_MIN;
    const isLarge = [...this.#held.values()].some((held) => held.length > CELL_CHARS_MAX);
    const isCut = this.#cuts > Math.max(CUTS_ALLOWED, this.#count * CUT_SHARE_MAX);
    if (this.#first === -1 || isTurned || isSparse || isLarge || isCut) return null;
    const rows = Array.from({ length: ys.length - 1 }, (_, row) =>
      Array.from({ length: columns }, (_, column) => this.#held.get(row * columns + column) ?? []),
    ).filter((row) => row.some((cell) => cell.length > 0));
    const used = Array.from({ length: columns }, (_, column) => column).filter((column) =>
      rows.some((row) => (row[column]?.length ?? 0) > 0),
    );
    if (rows.length < 2 || used.length < 2) return null;
    return { first: this.#first, rows: rows.map((row) => used.map((column) => row[column] ?? [])) };
  }
}

/** @param isTrue for all places up to one. @returns the last of `count` where it is, the first where it is for none. */
function lastWhere(count: number, isTrue: (at: number) => boolean): number {
  let [low, high] = [0, count];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (isTrue(middle)) low = middle;
    else high = middle;
  }
  return low;
}

function gridsOf({ across, upright }: Rules): Grid[] {
  if (across.length < 2 || upright.length < 2) return [];
  if (across.length + upright.length > RULES_MAX) return [];
  const rows = merged(across);
  const columns = merged(upright);
  const grids = groupsOf(rows, columns).flatMap((group) => gridOf(group) ?? []);
  // A box around another belongs to the page and not to a table.
  const isInner = (grid: Grid) =>
    !grids.some(
      (other) =>
        other !== grid && meet(grid.box, other.box) && areaOf(other.box) < areaOf(grid.box),
    );
  return grids.filter(isInner).slice(0, TABLES_MAX);
}

function both(one: Rules, other: Rules): Rules {
  return {
    across: [...one.across, ...other.across],
    upright: [...one.upright, ...other.upright],
  };
}

/** Rules on one line that touch become one. */
function merged(rules: readonly Rule[]): Rule[] {
  const lines: Rule[][] = [];
  for (const rule of rules.toSorted((a, b) => a.at - b.at)) {
    const line = lines.at(-1);
    if (line?.[0] !== undefined && rule.at - line[0].at <= NEAR) line.push(rule);
    else lines.push([rule]);
  }
  return lines.flatMap((line) => {
    const { at } = line[0] ?? { at: 0 };
    const parts: Rule[] = [];
    for (const { from, to } of line.toSorted((a, b) => a.from - b.from)) {
      const last = parts.at(-1);
      if (last !== undefined && from <= last.to + NEAR)
        parts[parts.length - 1] = { at, from: last.from, to: Math.max(last.to, to) };
      else parts.push({ at, from, to });
    }
    return parts;
  });
}

/** Rules that cross or touch, directly or by others. */
function groupsOf(across: readonly Rule[], upright: readonly Rule[]): Rules[] {
  const groupOf = new Map<Rule, number>();
  let count = 0;
  for (const start of across) {
    if (groupOf.has(start)) continue;
    const open: [rule: Rule, others: readonly Rule[]][] = [[start, upright]];
    groupOf.set(start, count);
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [rule, others] = next;
      for (const other of others) {
        if (groupOf.has(other) || !isCrossed(rule, other)) continue;
        groupOf.set(other, count);
        open.push([other, others === upright ? across : upright]);
      }
    }
    count += 1;
  }
  return Array.from({ length: count }, (_, group) => ({
    across: across.filter((rule) => groupOf.get(rule) === group),
    upright: upright.filter((rule) => groupOf.get(rule) === group),
  }));
}

function isCrossed(one: Rule, other: Rule): boolean {
  return covers(one, other.at) && covers(other, one.at);
}

function covers({ from, to }: Rule, at: number): boolean {
  return from - NEAR <= at && at <= to + NEAR;
}

/** Null for a frame, and for lines between columns or rows alone. */
function gridOf({ across, upright }: Rules): Grid | null {
  const xs = linesOf(upright, across);
  const ys = linesOf(across, upright).reverse();
  const [columns, rows] = [xs.length - 1, ys.length - 1];
  if (columns < 2 || rows < 2 || columns * rows > CELLS_MAX) return null;
  const box = { left: xs[0] ?? 0, right: xs.at(-1) ?? 0, top: ys[0] ?? 0, bottom: ys.at(-1) ?? 0 };
  const cells = Array.from({ length: columns * rows }, (_, at) => at);
  const firstOf = (at: number): number => {
    const first = cells[at] ?? at;
    return first === at ? at : firstOf(first);
  };
  const join = (one: number, other: number) => {
    const [a, b] = [firstOf(one), firstOf(other)].sort((x, y) => x - y);
    cells[b ?? 0] = a ?? 0;
  };
  const middle = (lines: readonly number[], at: number) =>
    ((lines[at] ?? 0) + (lines[at + 1] ?? 0)) / 2;
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const place = row * columns + column;
      const [x, y] = [middle(xs, column), middle(ys, row)];
      if (column + 1 < columns && !isDrawn(upright, xs[column + 1], y)) join(place, place + 1);
      if (row + 1 < rows && !isDrawn(across, ys[row + 1], x)) join(place, place + columns);
    }
  }
  return { box, xs, ys, cells: cells.map((_, at) => firstOf(at)) };
}

/** Where the rules lie, and the ends of those across them: a table may be open at its sides. */
function linesOf(rules: readonly Rule[], others: readonly Rule[]): number[] {
  const ends = [
    Math.min(...others.map(({ from }) => from)),
    Math.max(...others.map(({ to }) => to)),
  ];
  const lines: number[] = [];
  for (const at of [...rules.map((rule) => rule.at), ...ends].sort((a, b) => a - b)) {
    const last = lines.at(-1);
    if (last === undefined || at - last > NEAR) lines.push(at);
  }
  return lines;
}

function isDrawn(rules: readonly Rule[], at: number | undefined, along: number): boolean {
  return rules.some(
    (rule) => Math.abs(rule.at - (at ?? 0)) <= NEAR && rule.from <= along && along <= rule.to,
  );
}

function isOneWord(last: PageChar, next: PageChar): boolean {
  const height = Math.max(last.top - last.bottom, next.top - next.bottom);
  const gap = next.left - last.right;
  const isLevel = Math.abs(next.bottom - last.bottom) < height / 2;
  return isLevel && gap < TOUCHING * height && gap > -OVER * height;
}

function meet(a: Box, b: Box): boolean {
  return a.left < b.right && b.left < a.right && a.bottom < b.top && b.bottom < a.top;
}
