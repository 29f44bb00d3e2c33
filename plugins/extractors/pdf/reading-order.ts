/**
 * Owns the order of lines that run another way than the library reads a page: their characters come as who turns the page reads them.
 * It must never lose a character, nor move one into another run of lines.
 */
import type { PageChar, Turn } from './page-char.js';
import { alongLine } from './turns.js';

const SPACE = 0x20;
const LINE_END: Pick<PageChar, 'code'> = { code: 0x0a };

/** Characters of one turn that follow each other, and the spaces among and behind them. */
interface Run {
  readonly turn: Turn | undefined;
  readonly from: number;
  readonly to: number;
}

/** How far a page with such lines is to be turned clockwise so that they run to the right, in quarters. */
export function uprightBy(turn: Turn | undefined): number {
  return -(turn ?? 0) & 3;
}

/**
 * Turns of lines that come in an order in which nobody reads them.
 * @param rotation of the page, in quarters clockwise: the library reads the lines that run to the right on it as they are to be read.
 */
export function turnsOutOfOrder(
  chars: readonly PageChar[],
  rotation: number,
): readonly (Turn | undefined)[] {
  const found = new Set<Turn | undefined>();
  let last: PageChar | null = null;
  for (const char of chars) {
    if (char.code <= SPACE) continue;
    const isTurned = char.turn !== null && uprightBy(char.turn) !== rotation;
    if (isTurned && last !== null && last.turn === char.turn) {
      if (isBack(alongLine(last), alongLine(char))) found.add(char.turn);
    }
    last = isTurned ? char : null;
  }
  return [...found];
}

/** To the left on a line, or to a line above. */
function isBack(last: PageChar, next: PageChar): boolean {
  const height = Math.max(last.top - last.bottom, next.top - next.bottom);
  const up = next.bottom - last.bottom;
  return up > height / 2 || (up > -height / 2 && next.left - last.right < -height / 2);
}

/** @param read the same characters in an order in which lines of this turn are as they are to be read. */
export function inOrderOf(
  chars: readonly PageChar[],
  turn: Turn | undefined,
  read: readonly PageChar[],
): readonly PageChar[] {
  const places = new Map<string, number[]>();
  for (const [at, char] of read.entries()) {
    if (char.code <= SPACE || char.turn !== turn) continue;
    const key = keyOf(char);
    const same = places.get(key);
    if (same === undefined) places.set(key, [at]);
    else same.push(at);
  }
  return runsOf(chars).flatMap((run) => {
    const own = chars.slice(run.from, run.to);
    return run.turn === turn ? ordered(own, places, read) : own;
  });
}

function runsOf(chars: readonly PageChar[]): Run[] {
  const runs: Run[] = [];
  for (const [at, { code, turn }] of chars.entries()) {
    const last = runs.at(-1);
    if (last === undefined) runs.push({ turn, from: at, to: at + 1 });
    else if (code > SPACE && last.turn !== turn) runs.push({ turn, from: at, to: at + 1 });
    else runs[runs.length - 1] = { turn: last.turn, from: last.from, to: at + 1 };
  }
  return runs;
}

/** As they are where the other order has not all of them. */
function ordered(
  own: readonly PageChar[],
  places: ReadonlyMap<string, number[]>,
  read: readonly PageChar[],
): readonly PageChar[] {
  const found: number[] = [];
  let end = 0;
  for (const [at, char] of own.entries()) {
    if (char.code <= SPACE) continue;
    const place = places.get(keyOf(char))?.shift();
    if (place === undefined) return own;
    found.push(place);
    end = at + 1;
  }
  found.sort((a, b) => a - b);
  const moved = found.flatMap((place, at): PageChar[] => {
    const char = read[place];
    if (char === undefined) return [];
    const between = read.slice(place + 1, found[at + 1] ?? place + 1);
    // What lies between are lines of another run.
    const isOther = between.some(({ code }) => code > SPACE);
    return [char, ...(isOther ? [{ ...char, ...LINE_END }] : between)];
  });
  return [...moved, ...own.slice(end)];
}

/** The library finds the same place for a character each time. */
function keyOf({ code, left, bottom }: PageChar): string {
  return `${code} ${left} ${bottom}`;
}
