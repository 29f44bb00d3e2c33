/**
 * Owns how the characters of a page become lines: spaces, tabs between cells, line ends, words parted by a hyphen.
 * It must keep the order in which it is given them: which column comes first is the page's own business.
 */

export interface PageChar {
  /** Code point. */
  readonly code: number;
  /** Put in by the reader for a gap it saw, not written on the page. */
  readonly isGenerated: boolean;
  /** In points, `top` above `bottom`. */
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}

/** The hyphen at a line's end of which the reader says that the word goes on. */
const WORD_GOES_ON = 2;
/** Of a line's height: a gap no sentence has, even justified. */
const CELL_GAP = 1.6;
/** Of a line's height: a gap that lines of one paragraph do not have. */
const PARAGRAPH_GAP = 0.9;

export function textOfChars(chars: Iterable<PageChar>): string {
  const parts: string[] = [];
  let last: PageChar | null = null;
  let between = '';
  for (const char of chars) {
    if (char.code === WORD_GOES_ON) {
      between = 'join';
    } else if (isSpace(char.code)) {
      if (between !== 'join') between += String.fromCodePoint(char.code);
    } else if (isVisible(char.code)) {
      if (last !== null) parts.push(between === 'join' ? '' : separator(last, char, between));
      parts.push(String.fromCodePoint(char.code));
      last = char;
      between = '';
    }
  }
  return parts.join('');
}

function separator(last: PageChar, next: PageChar, between: string): string {
  const height = Math.max(last.top - last.bottom, next.top - next.bottom);
  const gap = next.left - last.right;
  if (height > 0 && Math.abs(next.bottom - last.bottom) < height / 2 && gap > -height / 2) {
    if (gap > CELL_GAP * height) return '\t';
    return between === '' ? '' : ' ';
  }
  if (!/[\r\n]/.test(between)) return between === '' ? '' : ' ';
  return last.bottom - next.top > PARAGRAPH_GAP * height ? '\n\n' : '\n';
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d) || code === 0xa0;
}

function isVisible(code: number): boolean {
  return code > 0x20 && code !== 0xfffe && code !== 0xffff && code <= 0x10ffff;
}
