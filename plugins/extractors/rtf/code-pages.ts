/**
 * Owns which encoding the characters of a font have, by the number that Windows gives a set of characters.
 * It must never read a document.
 */

const byCharset: Readonly<Record<number, number>> = {
  0: 1252,
  // Symbols: bullets, arrows.
  2: 1252,
  77: 10000,
  128: 932,
  129: 949,
  134: 936,
  136: 950,
  161: 1253,
  162: 1254,
  163: 1258,
  177: 1255,
  178: 1256,
  186: 1257,
  204: 1251,
  222: 874,
  238: 1250,
  254: 437,
  255: 850,
};

/** @returns null for the one of the document. */
export function codePageOf(charset: number): number | null {
  return byCharset[charset] ?? null;
}
