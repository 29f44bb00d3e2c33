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

export interface PageChar {
  /** Code point. */
  readonly code: number;
  /** A space that the page does not draw: the library takes a gap for it. */
  readonly isGuess?: boolean;
  /** Its font does not say which letter it is: the code is that of the font. */
  readonly isUnmapped?: boolean;
  readonly font?: CharFont;
  /** In points, `top` above `bottom`. */
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}
