/**
 * Owns the comments of a doc of Word 97 to 2003: where each begins and ends in its story, and who wrote it.
 * It must never read text: the story is among that of the document.
 */

const REFERENCES = 0xba;
const TEXTS = 0xc2;
const AUTHORS = 0x1ba;
/** Of a reference: initials, then the number of the author. */
const REFERENCE_BYTES = 30;
const AUTHOR_AT = 20;

export interface DocComment {
  /** Characters from the start of the story. */
  readonly from: number;
  readonly to: number;
  /** Empty where the document does not say. */
  readonly author: string;
}

/** Damage to comments costs the comments, never the text. */
export function readDocComments(main: Buffer, table: Buffer): DocComment[] {
  try {
    return commentsOf(main, table);
  } catch (cause) {
    if (cause instanceof RangeError) return [];
    throw cause;
  }
}

function commentsOf(main: Buffer, table: Buffer): DocComment[] {
  const references = main.readUInt32LE(REFERENCES);
  const texts = main.readUInt32LE(TEXTS);
  const length = main.readUInt32LE(REFERENCES + 4);
  const count = Math.floor((length - 4) / (4 + REFERENCE_BYTES));
  const authors = authorsOf(main, table);
  const found: DocComment[] = [];
  for (let index = 0; index < count; index++) {
    const reference = references + (count + 1) * 4 + index * REFERENCE_BYTES;
    found.push({
      from: table.readUInt32LE(texts + index * 4),
      to: table.readUInt32LE(texts + index * 4 + 4),
      author: authors[table.readUInt16LE(reference + AUTHOR_AT)] ?? '',
    });
  }
  return found;
}

function authorsOf(main: Buffer, table: Buffer): string[] {
  const start = main.readUInt32LE(AUTHORS);
  const end = start + main.readUInt32LE(AUTHORS + 4);
  const authors: string[] = [];
  for (let at = start; at + 2 <= end; ) {
    const next = at + 2 + table.readUInt16LE(at) * 2;
    authors.push(table.toString('utf16le', at + 2, next));
    at = next;
  }
  return authors;
}
