/**
 * Owns PDF documents: the text their pages hold, what is filled into their forms, and, where a page is only a picture, OCR.
 * It must never run a document's scripts, or return text that no reader could decode.
 *
 * pdfium leads: it opens, tells damage from encryption and reads each page. Pages it cannot be trusted on are read
 * again by pdf2json, and what neither can read is rendered and recognised.
 */
import { extname } from 'node:path';
import type {
  DocumentClaim,
  DocumentPage,
  Extractor,
  ExtractorOptions,
  ExtractorPlugin,
  SourceDocument,
} from 'preface/plugin';
import { openRecognizer, type Recognizer } from '../ocr/recognizer.js';
import { PdfFile } from './pdfium.js';
import { DOUBT_MAX, doubtOf } from './quality.js';
import { type RereadPage, rereadPdf } from './reread.js';

const plugin: ExtractorPlugin = {
  kind: 'extractor',
  name: 'extractor-pdf',
  contract: 1,
  async open(options) {
    const recognizer = openRecognizer(options.languages);
    return new PdfExtractor(options, recognizer);
  },
};

export default plugin;

const FILE_TYPE = 'application/pdf';
/** Some writers put bytes before the header; PDF readers traditionally search this far. */
const HEADER_SEARCH_BYTES = 1024;

class PdfExtractor implements Extractor {
  constructor(
    private readonly options: ExtractorOptions,
    private readonly recognizer: Recognizer,
  ) {}

  accepts({ bytes, filename }: SourceDocument): DocumentClaim | null {
    const head = Buffer.from(bytes.subarray(0, HEADER_SEARCH_BYTES)).toString('latin1');
    if (
      head
        .trimStart()
        .replace(/^\u00ef\u00bb\u00bf/, '')
        .startsWith('%PDF-')
    ) {
      return { fileType: FILE_TYPE, ground: 'content' };
    }
    // A file that is named .pdf may be a damaged PDF, whatever its bytes.
    return extname(filename).toLowerCase() === '.pdf'
      ? { fileType: FILE_TYPE, ground: 'name' }
      : null;
  }

  async *extract({ bytes }: SourceDocument): AsyncGenerator<DocumentPage> {
    const file = await PdfFile.open(bytes, this.options.bounds);
    try {
      yield* this.#pages(file, bytes);
    } finally {
      file.close();
    }
  }

  async *#pages(file: PdfFile, bytes: Uint8Array): AsyncGenerator<DocumentPage> {
    const { pagesMax } = this.options.bounds;
    if (file.pages < 1) throw coded('damaged', 'no page of it can be found');
    if (file.pages > pagesMax) {
      throw coded('bound', `it has ${file.pages} pages, at most ${pagesMax} are read`);
    }
    const reading = new PdfReading(file, bytes, this.recognizer);
    let found = false;
    for (let index = 0; index < file.pages; index += 1) {
      const text = await reading.page(index);
      found ||= text !== '';
      const page = { text, pages: file.pages };
      yield index === 0 ? { ...page, title: file.title() } : page;
    }
    if (reading.lostPages === file.pages) throw coded('damaged', 'none of its pages can be opened');
    if (!found) throw coded('no_text', 'no page has text, and OCR found none in it');
  }

  async close(): Promise<void> {
    await this.recognizer.close();
  }
}

class PdfReading {
  /** Pages of the count that cannot be opened. */
  lostPages = 0;
  readonly #hasForm: boolean;
  #reread: Promise<RereadPage[] | null> | null = null;

  constructor(
    private readonly file: PdfFile,
    private readonly bytes: Uint8Array,
    private readonly recognizer: Recognizer,
  ) {
    this.#hasForm = file.hasForm();
  }

  async page(index: number): Promise<string> {
    const read = this.file.text(index, this.#hasForm);
    if (read === null) {
      this.lostPages += 1;
      return '';
    }
    const trusted = await this.#trusted(index, read.text, doubtOf(read.text, read.mapErrors));
    return this.#hasForm ? await this.#withFields(index, trusted) : trusted;
  }

  async #trusted(index: number, text: string, doubt: number): Promise<string> {
    if (doubt <= DOUBT_MAX) return text;
    // A scan has no letters that another reader could find.
    if (text === '' && this.file.hasPictures(index)) return await this.#recognized(index);
    const second = (await this.#second(index))?.text ?? '';
    // When both readers agree, both relied on the doubtful font map.
    const isBetter = squeezed(second) !== squeezed(text) && doubtOf(second) < doubt;
    if (isBetter && doubtOf(second) <= DOUBT_MAX) return second;
    return (await this.#recognized(index)) || (isBetter ? second : text);
  }

  async #recognized(index: number): Promise<string> {
    const picture = this.file.render(index);
    return picture === null ? '' : await this.recognizer.recognize(picture);
  }

  /** Form values that are not drawn on the page: viewers draw them on opening. */
  async #withFields(index: number, text: string): Promise<string> {
    const seen = squeezed(text);
    const fields = (await this.#second(index))?.fields ?? [];
    const hidden = fields.filter(({ value }) => !seen.includes(squeezed(value)));
    const lines = hidden.map(({ name, value }) => (name === '' ? value : `${name}: ${value}`));
    return [text, ...lines].filter((line) => line !== '').join('\n');
  }

  async #second(index: number): Promise<RereadPage | undefined> {
    this.#reread ??= rereadPdf(this.bytes, this.file.pages);
    return (await this.#reread)?.[index];
  }
}

function squeezed(text: string): string {
  return text.replace(/\s+/g, '');
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
