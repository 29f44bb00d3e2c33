/**
 * Owns the quality score of a page's text: fonts without a map to Unicode may give wrong characters.
 * It must never change a text, only say how far it is to be trusted.
 */
import { linesOf, NO_TEXT, type PlacedText } from '../shared/placed.js';
import { strangeShare } from '../shared/plausible.js';

/** Characters no author writes: the replacement, private use, controls, unassigned ones. */
const strange = /[\ufffd\p{Co}\p{Cn}]|(?![\t\n])\p{Cc}/u;
const letter = /[\p{L}\p{N}]/u;

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
  const counted = countsOf(text);
  const { length, letters } = counted;
  if (length === 0) return 1;
  const odd = counted.strange + unmapped.controls;
  // Lines of dots and dashes are good text although they have no letters.
  const dumb = length >= 10 && letters < length / 20 ? 0.5 : 0;
  return Math.min(1, odd / length + dumb + wrongTable(text, length, unmapped));
}

interface Counts {
  /** In code units, of all that is no blank. */
  length: number;
  letters: number;
  strange: number;
}

/** In one pass, since each page of a document is looked at. */
function countsOf(text: string): Counts {
  const counts: Counts = { length: 0, letters: 0, strange: 0 };
  for (let at = 0; at < text.length; at += 1) {
    const code = text.codePointAt(at) ?? 0;
    const kind = kindOf(code);
    if ((kind & VISIBLE) !== 0) counts.length += code < kinds.length ? 1 : 2;
    if ((kind & LETTER) !== 0) counts.letters += 1;
    if ((kind & STRANGE) !== 0) counts.strange += 1;
    if (code >= kinds.length) at += 1;
  }
  return counts;
}

const [KNOWN, VISIBLE, LETTER, STRANGE] = [1, 2, 4, 8];
/** By code; 0 for those that no page had yet. */
const kinds = new Uint8Array(0x10000);

function kindOf(code: number): number {
  const known = kinds[code] ?? 0;
  if (known !== 0) return known;
  const char = String.fromCodePoint(code);
  const visible = /\s/.test(char) ? 0 : VISIBLE;
  const kind =
    KNOWN | visible | (letter.test(char) ? LETTER : 0) | (strange.test(char) ? STRANGE : 0);
  if (code < kinds.length) kinds[code] = kind;
  return kind;
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
