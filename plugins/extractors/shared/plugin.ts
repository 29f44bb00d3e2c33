/**
 * Owns the form that extractors without a state of their own share: a claim, and pages made from the bytes alone.
 * It must never pass a library's error to the uploader unchanged.
 */
import type {
  DocumentClaim,
  DocumentPage,
  ExtractionBounds,
  Extractor,
  ExtractorPlugin,
  SourceDocument,
} from 'preface/plugin';
import { orDamaged } from './refusal.js';

export interface DocumentFormat {
  /** Of the plugin. */
  readonly name: string;
  readonly accepts: (document: SourceDocument, bounds: ExtractionBounds) => DocumentClaim | null;
  /** May throw anything: an error that is not a refusal means that the document is damaged. */
  readonly pages: (
    document: SourceDocument,
    bounds: ExtractionBounds,
  ) => Iterable<DocumentPage> | AsyncIterable<DocumentPage>;
}

export function documentPlugin({ name, accepts, pages }: DocumentFormat): ExtractorPlugin {
  return {
    kind: 'extractor',
    name,
    contract: 1,
    open: async ({ bounds }): Promise<Extractor> => ({
      accepts: (document) => accepts(document, bounds),
      extract: (document) => orDamaged(() => pages(document, bounds)),
      close: async () => {},
    }),
  };
}
