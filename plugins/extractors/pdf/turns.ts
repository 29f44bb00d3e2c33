/**
 * Owns lines that run upwards, downwards or upside down: where their characters lie as who reads the line sees it.
 * It must never change the boxes of slanted lines.
 */
import type { PageChar, Turn } from './page-char.js';

/** As a share of a quarter: what a writer's rounding may turn a line. */
const ROUNDING = 0.01;
const TURNS = [undefined, 1, 2, 3] as const;

/** Of an angle in radians, clockwise. Undefined for a line that is not turned. */
export function turnOf(angle: number): Turn | undefined {
  const quarters = angle / (Math.PI / 2);
  const nearest = Math.round(quarters);
  return Math.abs(quarters - nearest) > ROUNDING ? null : TURNS[nearest & 3];
}

/** As the line runs to the right. */
export function alongLine(char: PageChar): PageChar {
  const { left, right, top, bottom } = char;
  switch (char.turn) {
    case 1:
      return { ...char, left: -top, right: -bottom, bottom: left, top: right };
    case 2:
      return { ...char, left: -right, right: -left, bottom: -top, top: -bottom };
    case 3:
      return { ...char, left: bottom, right: top, bottom: -right, top: -left };
    default:
      return char;
  }
}

/** Two characters as their line runs to the right, or as they are where they stand on differently turned lines. */
export function alongLines(last: PageChar, next: PageChar): [PageChar, PageChar] {
  return last.turn === next.turn ? [alongLine(last), alongLine(next)] : [last, next];
}
