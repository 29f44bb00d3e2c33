/**
 * Owns texts that know where their lines stand.
 * It must never let the places and the lines of a text drift apart: each line has one, or null.
 */
import type { LinePlace } from 'preface/plugin';

export interface PlacedText {
  readonly text: string;
  readonly lines: readonly (LinePlace | null)[];
}

/** A text of which nobody knows where it stands. */
export function unplaced(text: string): PlacedText {
  return { text, lines: text.split('\n').map(() => null) };
}

export const NO_TEXT = unplaced('');

/** Those that are not empty, one below the other. */
export function stacked(
  texts: readonly PlacedText[],
  { blankLine }: { readonly blankLine: boolean },
): PlacedText {
  const filled = texts.filter(({ text }) => text !== '');
  if (filled.length === 0) return NO_TEXT;
  const lines = filled.flatMap((each, at) =>
    blankLine && at > 0 ? [null, ...each.lines] : each.lines,
  );
  return { text: filled.map(({ text }) => text).join(blankLine ? '\n\n' : '\n'), lines };
}

/** Its lines that are kept, without blank ones at both ends. */
export function linesOf({ text, lines }: PlacedText, keep: (line: string) => boolean): PlacedText {
  const kept = text
    .split('\n')
    .map((line, at) => ({ line, place: lines[at] ?? null }))
    .filter(({ line }) => keep(line));
  const isFilled = ({ line }: { line: string }) => line.trim() !== '';
  const first = kept.findIndex(isFilled);
  if (first < 0) return NO_TEXT;
  const trimmed = kept.slice(first, kept.findLastIndex(isFilled) + 1);
  return {
    text: trimmed
      .map(({ line }) => line)
      .join('\n')
      .trim(),
    lines: trimmed.map(({ place }) => place),
  };
}

/** On a page on which it stands elsewhere, in another size. */
export function movedBy(
  { text, lines }: PlacedText,
  { left, top, scale }: { readonly left: number; readonly top: number; readonly scale: number },
): PlacedText {
  const moved = lines.map((line): LinePlace | null => {
    if (line === null) return null;
    const [x0, y0, x1, y1] = line.box;
    const across = (x: number) => (x + left) * scale;
    const down = (y: number) => (y + top) * scale;
    return { ...line, box: [across(x0), down(y0), across(x1), down(y1)] };
  });
  return { text, lines: moved };
}
