/**
 * Owns the quality score of a page's text: fonts without a map to Unicode may give wrong characters.
 * It must never change a text, only say how far it is to be trusted.
 */
import { linesOf, NO_TEXT, type PlacedText } from '../shared/placed.js';
import { strangeShare } from '../shared/plausible.js';

/** Characters no author writes: the replacement, private use, controls, unassigned ones. */
const strange = /[\ufffd\p{Co}\p{Cn}]|(?![\t\n])\p{Cc}/gu;
const letter = /[\p{L}\p{N}]/gu;

/** Characters of fonts without a map to Unicode: their codes are shown, which often are the right characters. */
export interface Unmapped {
  readonly visible: number;
  /** Codes that are control characters, which the text leaves out: the codes are no characters then. */
  readonly controls: number;
}

const NONE: Unmapped = { visible: 0, controls: 0 };
/** As a share of a text: more of it is no word. Tables and formulas of sound texts reach half of this. */
const STRANGE_MAX = 0.5;

/** 0 is good, 1 is worthless. */
export function doubtOf(text: string, unmapped = NONE): number {
  const length = text.replace(/\s/g, '').length;
  if (length === 0) return 1;
  const odd = (text.match(strange)?.length ?? 0) + unmapped.controls;
  const letters = text.match(letter)?.length ?? 0;
  // Lines of dots and dashes are good text although they have no letters.
  const dumb = length >= 10 && letters < length / 20 ? 0.5 : 0;
  return Math.min(1, odd / length + dumb + wrongTable(text, length, unmapped));
}

/** The lines of a text that are sound by themselves; none where codes took the place of characters. */
export function soundLines(placed: PlacedText, { visible, controls }: Unmapped): PlacedText {
  if (controls > 0 || visible > placed.text.length * DOUBT_MAX) return NO_TEXT;
  return linesOf(placed, (line) => line.trim() === '' || doubtOf(line) <= DOUBT_MAX);
}

/** Only the text can tell whether the codes of its fonts are characters. */
function wrongTable(text: string, length: number, { visible }: Unmapped): number {
  if (visible <= length * DOUBT_MAX) return 0;
  const share = strangeShare(text);
  return share > STRANGE_MAX ? share : 0;
}

/** A page with a worse score is read again by another reader. */
export const DOUBT_MAX = 0.1;
/** A text with a worse score is no text. Rules and dots alone reach this. */
export const DOUBT_HOPELESS = 0.5;
