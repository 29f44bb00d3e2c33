/**
 * Owns what tests of extractors share: bounds, the documents beside the tests, and reading a whole document.
 * It must never decide what the text of a document is.
 */
import { readFileSync } from 'node:fs';
import type {
  DocumentPage,
  ExtractionBounds,
  Extractor,
  ExtractorPlugin,
} from '../../src/plugin/contract.js';

export const testBounds: ExtractionBounds = {
  pagesMax: 100,
  pixelsMax: 20_000_000,
  textLengthMax: 1_000_000,
  unpackedBytesMax: 10_000_000,
  unpackRatioMax: 100,
  archiveEntriesMax: 100,
  nestingMax: 64,
};

/** Path of a file in `test/documents`. */
export function documentBytes(name: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(`../../../test/documents/${name}`, import.meta.url)));
}

export function openForTest(
  plugin: ExtractorPlugin,
  bounds: Partial<ExtractionBounds> = {},
  languages: readonly string[] = ['eng'],
): Promise<Extractor> {
  return plugin.open({ bounds: { ...testBounds, ...bounds }, languages });
}

/** @throws the extractor's error, or one that says that the extractor does not claim the document. */
export async function readAll(
  extractor: Extractor,
  bytes: Uint8Array,
  filename = 'document',
): Promise<DocumentPage[]> {
  const claim = extractor.accepts({ bytes, filename });
  if (claim === null) throw Object.assign(new Error('not accepted'), { code: 'unsupported' });
  const pages: DocumentPage[] = [];
  for await (const page of extractor.extract({ bytes, filename }, claim)) pages.push(page);
  return pages;
}

export function wordsOf(text: string): string[] {
  return text.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** Word error rate: words to insert, delete or replace, as a share of the expected words. */
export function wordErrorRate(text: string, wanted: string): number {
  const got = wordsOf(text);
  const right = wordsOf(wanted);
  let row = right.map((_, at) => at + 1);
  got.forEach((word, i) => {
    let [diagonal, left] = [i, i + 1];
    row = row.map((above, at) => {
      const cost = Math.min(above + 1, left + 1, diagonal + (right[at] === word ? 0 : 1));
      [diagonal, left] = [above, cost];
      return cost;
    });
  });
  return (row.at(-1) ?? got.length) / right.length;
}
