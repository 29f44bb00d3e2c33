/**
 * Owns the part of the extractor contract that says what one document may cost.
 * It must stay free of imports, like the contract it belongs to.
 */

/** What one document may cost. A document that reaches a bound fails with the `code` of `bound`, and says which. */
export interface ExtractionBounds {
  readonly pagesMax: number;
  /** Of one picture, decoded. Known from its header before anything is decoded. */
  readonly pixelsMax: number;
  /** UTF-16 units of the text of all pages. */
  readonly textLengthMax: number;
  /** Of an archive: all entries unpacked. Known from its directory, and counted while unpacking, which may say otherwise. */
  readonly unpackedBytesMax: number;
  /** Unpacked to packed bytes, of an archive as a whole. */
  readonly unpackRatioMax: number;
  readonly archiveEntriesMax: number;
  /** Depth of markup, of page trees, of archives in archives. */
  readonly nestingMax: number;
}
