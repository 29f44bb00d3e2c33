/**
 * Owns what is known of a character that a page of a PDF draws.
 * It must never depend on the library that found it.
 */

/** Of a character without a letter. */
export interface CharFont {
  readonly id: number;
  /** Empty for a font that is a set of drawings. */
  readonly name: string;
}

/** Of a line, in quarters clockwise: 1 runs downwards, 2 is upside down, 3 runs upwards. Null for a line that is slanted. */
export type Turn = 1 | 2 | 3 | null;

export interface PageChar {
  /** Code point. */
  readonly code: number;
  /** A space that the page does not draw: the library takes a gap for it. */
  readonly isGuess?: boolean;
  /** Its font does not say which letter it is: the code is that of the font. */
  readonly isUnmapped?: boolean;
  readonly font?: CharFont | undefined;
  /** Where it is missing the line is not turned. */
  readonly turn?: Turn | undefined;
  /** In points, `top` above `bottom`. */
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}
