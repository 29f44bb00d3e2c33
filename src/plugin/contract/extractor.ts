/**
 * Owns the contract of extractors: what one document may cost, what is claimed of it, what is read in it.
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

export interface ExtractorOptions {
  readonly bounds: ExtractionBounds;
  /** Languages that OCR reads, by the names of tesseract's data: `eng`, `chi_sim`. */
  readonly languages: readonly string[];
  /** Folder in which the files of those languages are looked for before the installed packages; absent: there is none. */
  readonly languagesFolder?: string;
  /** Whether pictures within documents that have a text of their own are read too; absent: they are. */
  readonly pictures?: boolean;
  /**
   * Reads a picture with a program of the machine, in the languages above; absent: there is none, and what recognises text
   * must come with the plugin. Pictures are read one at a time, in the order in which they are asked for, within a document
   * that is being read. Rejects with an Error where the program failed, or took too long.
   */
  readonly recognize?: (picture: PictureToRead) => Promise<RecognizedPicture>;
}

/** At most 16 Mi pixels, and 32 000 of a side. */
export interface PictureToRead {
  readonly width: number;
  readonly height: number;
  /** Grey, one byte a pixel, row by row; 255 is white. */
  readonly pixels: Uint8Array;
  /** `page`: columns, paragraphs and pictures are told apart first. `block`: it is one block of text, or one word. */
  readonly layout: 'page' | 'block';
}

/** As the program `tesseract` writes it: to be read with care, since a picture may make it write anything. */
export interface RecognizedPicture {
  /** In lines, wide gaps as several spaces; empty where no text was found. */
  readonly text: string;
  /** Markup of the same text with the places of lines and words, by the public format hOCR. */
  readonly hocr: string;
}

export interface SourceDocument {
  readonly bytes: Uint8Array;
  /** As the uploader called it: a hint, never a path. */
  readonly filename: string;
}

/** What an extractor takes a document for. */
export interface DocumentClaim {
  /** Media type: `application/pdf`. */
  readonly fileType: string;
  /** `content`: the bytes say so. `name`: the bytes allow it and the name says so. `text`: it is readable text at least. */
  readonly ground: 'content' | 'name' | 'text';
}

/** Where a line stands on its page. */
export interface LinePlace {
  /** Left, top, right and bottom, from the page's upper left corner. */
  readonly box: readonly [number, number, number, number];
  /** Where it was recognised in a picture: how sure the recognition is of its words, 0…100. */
  readonly score?: number;
}

export interface PageLayout {
  /** Of the page as it is seen: turned where the document says so. */
  readonly width: number;
  readonly height: number;
  /** A point is 1/72 inch. */
  readonly unit: 'point' | 'pixel';
  /** One for each line of the page's text, in their order; null for one that stands nowhere on the page: a blank line, a note. */
  readonly lines: readonly (LinePlace | null)[];
}

export interface DocumentPage {
  /** In the order in which a person would read it; rows of a table one a line, cells parted by tabs. May be empty. */
  readonly text: string;
  /** Pages of the whole document, null where nobody knows yet. */
  readonly pages: number | null;
  /** The document's own title, with the first page; absent or empty for none. */
  readonly title?: string;
  /** What the pages are in this format, where they are something that people count. */
  readonly unit?: 'page' | 'sheet' | 'slide' | 'chapter';
  /** Where text of the page was recognised in pictures: how sure the recognition is of its words, 0…100. */
  readonly recognized?: number;
  /** How many pictures within the page gave text; absent where the page itself is a picture. */
  readonly pictures?: number;
  /** What of the page was not read, each as a noun with its reason: `a picture of 90000 × 90000 (too large)`. */
  readonly skipped?: readonly string[];
  /** Where its lines stand, in formats that know it. */
  readonly layout?: PageLayout;
}

export interface Extractor {
  /** Cheap: looks at magic bytes, a directory of entries, the name. Null: not mine. Never throws. */
  accepts(document: SourceDocument): DocumentClaim | null;
  /**
   * Page by page; pull is the back-pressure. Fetches nothing and reads no other file, whatever the document says.
   * @throws Error whose message tells the uploader why, with a `code` of `encrypted`, `damaged`, `no_text`,
   *   `unsupported` or `bound`.
   */
  extract(document: SourceDocument, claim: DocumentClaim): AsyncIterable<DocumentPage>;
  close(): Promise<void>;
}
