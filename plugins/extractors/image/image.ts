/**
 * Owns pictures: what is written in photos, scans and screenshots, by OCR, and the text that drawings hold as text.
 * It must never decode a picture whose header says that it is too large, nor take a decoder's name from a document.
 */
import type {
  DocumentClaim,
  DocumentPage,
  Extractor,
  ExtractorOptions,
  ExtractorPlugin,
  SourceDocument,
} from 'preface/plugin';
import { openRecognizer, type Recognizer } from '../ocr/recognizer.js';
import { decodeMarkup, isSvg, isSvgz, kindOf, unpackSvgz } from './format.js';
import { PictureFile } from './magick.js';
import { drawingSides, drawSvg } from './outlines.js';
import { textOfSvg } from './svg.js';

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-image',
  contract: 1,
  async open(options) {
    return new ImageExtractor(options, openRecognizer(options.languages));
  },
};

export default plugin;

const SVG = 'image/svg+xml';

class ImageExtractor implements Extractor {
  constructor(
    private readonly options: ExtractorOptions,
    private readonly recognizer: Recognizer,
  ) {}

  accepts({ bytes, filename }: SourceDocument): DocumentClaim | null {
    const kind = kindOf(bytes);
    if (kind !== null) return { fileType: kind.fileType, ground: 'content' };
    if (isSvg(bytes)) return { fileType: SVG, ground: 'content' };
    return isSvgz(bytes, filename) ? { fileType: SVG, ground: 'name' } : null;
  }

  async *extract({ bytes, filename }: SourceDocument): AsyncGenerator<DocumentPage> {
    const kind = kindOf(bytes);
    if (kind === null || kind.format === 'svg') {
      yield await this.#drawing(bytes, filename);
      return;
    }
    const file = await PictureFile.open(bytes, kind.format, this.options.bounds);
    let found = false;
    for (let index = 0; index < file.pages; index += 1) {
      const { text, score } = await this.recognizer.recognize(file.page(index));
      found ||= text !== '';
      const page = { text, pages: file.pages, unit: 'page' } as const;
      yield { ...page, ...(text !== '' && { recognized: Math.round(score) }) };
    }
    if (!found) throw coded('no_text', 'OCR found no text in it');
  }

  async close(): Promise<void> {
    await this.recognizer.close();
  }

  /** The drawing's text elements; without any, OCR of its shapes. */
  async #drawing(bytes: Uint8Array, filename: string): Promise<DocumentPage> {
    const { bounds } = this.options;
    const unpackedMax = Math.min(bounds.unpackedBytesMax, bytes.length * bounds.unpackRatioMax);
    const isPacked = isSvgz(bytes, filename);
    const markup = decodeMarkup(isPacked ? unpackSvgz(bytes, unpackedMax) : bytes);
    const { text, title } = textOfSvg(markup, bounds.nestingMax);
    if (text !== '') return { text, pages: 1, title };
    for (const side of drawingSides) {
      const drawn = await drawSvg(markup, side, bounds);
      const { text: seen } = await this.recognizer.recognize(drawn, false);
      if (seen !== '') return { text: seen, pages: 1, title };
    }
    throw coded('no_text', 'it is a drawing without text, and OCR found none in its shapes');
  }
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
