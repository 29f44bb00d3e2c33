/**
 * Owns pdfium: opens documents, tells pages, titles and sizes, reads text and renders.
 * It must never let one document see another's data: each starts with the library's initial memory.
 */
import type { ExtractionBounds } from 'preface/plugin';
import { type GreyPicture, shrinkOf } from '../ocr/picture.js';
import { type Instance, type Pdfium, putBack, takeInstance } from './instance.js';
import { type PageChar, textOfChars } from './layout.js';

export interface PdfText {
  readonly text: string;
  /** Characters of fonts without a map to Unicode. */
  readonly mapErrors: number;
}

const PASSWORD_ERROR = 4;
const SECURITY_ERROR = 5;
const GREY_BITMAP = 1;
const IMAGE_OBJECT = 3;
const WHITE = 0xffffffff;
const SPACE = 0x20;
const RENDER_ANNOTATIONS = 0x01;
const RENDER_GREY = 0x08;
/** Points are 72 to the inch. Small print is 8 points: 22 pixels, which tesseract likes. */
const SCALE = 200 / 72;

export class PdfFile {
  readonly pages: number;
  /** Nothing went wrong so far. */
  #sound = true;

  private constructor(
    private readonly instance: Instance,
    private readonly document: number,
    private readonly bounds: ExtractionBounds,
  ) {
    this.pages = instance.pdfium._FPDF_GetPageCount(document);
  }

  get pdfium(): Pdfium {
    return this.instance.pdfium;
  }

  /** @throws Error with a `code` of `encrypted` or `damaged`. */
  static async open(bytes: Uint8Array, bounds: ExtractionBounds): Promise<PdfFile> {
    const instance = await takeInstance();
    const { pdfium } = instance;
    return guarded(() => {
      const at = pdfium.wasmExports.malloc(bytes.length);
      // The heap is an array: written at 0 the document would overwrite the program's own data.
      if (at === 0) throw coded('bound', 'the document does not fit in the memory of its reader');
      pdfium.HEAPU8.set(bytes, at);
      const document = pdfium._FPDF_LoadMemDocument(at, bytes.length, 0);
      if (document === 0) throw openingError(pdfium._FPDF_GetLastError());
      return new PdfFile(instance, document, bounds);
    });
  }

  /** To be called once, after the last of the others. */
  close(): void {
    if (this.#sound) putBack(this.instance);
  }

  title(): string {
    return this.#guarded(() => {
      const { pdfium } = this;
      const tag = this.#allocate(6);
      pdfium.HEAPU8.set(Buffer.from('Title\0', 'latin1'), tag);
      const bytes = pdfium._FPDF_GetMetaText(this.document, tag, 0, 0);
      if (bytes <= 2 || bytes > TITLE_BYTES_MAX) return '';
      const at = this.#allocate(bytes);
      pdfium._FPDF_GetMetaText(this.document, tag, at, bytes);
      return Buffer.from(pdfium.HEAPU8.subarray(at, at + bytes - 2))
        .toString('utf16le')
        .trim();
    });
  }

  hasForm(): boolean {
    return this.#guarded(() => this.pdfium._FPDF_GetFormType(this.document) > 0);
  }

  /** @param flat with what is written into form fields. Null for a page that cannot be opened. */
  text(index: number, flat: boolean): PdfText | null {
    return this.#guarded(() => {
      if (flat) this.#withPage(index, (page) => this.pdfium._FPDFPage_Flatten(page, 0));
      return this.#withPage(index, (page) => this.#text(page));
    });
  }

  /** @throws Error with a `code` of `bound` for a page that holds too large a picture. */
  render(index: number): GreyPicture | null {
    return this.#guarded(() =>
      this.#withPage(index, (page) => {
        this.#countPictures(page, index);
        return this.#render(page);
      }),
    );
  }

  #withPage<Result>(index: number, read: (page: number) => Result): Result | null {
    const page = this.pdfium._FPDF_LoadPage(this.document, index);
    if (page === 0) return null;
    try {
      return read(page);
    } finally {
      this.pdfium._FPDF_ClosePage(page);
    }
  }

  #text(page: number): PdfText {
    const { pdfium } = this;
    const text = pdfium._FPDFText_LoadPage(page);
    if (text === 0) return { text: '', mapErrors: 0 };
    try {
      const count = pdfium._FPDFText_CountChars(text);
      const max = this.bounds.textLengthMax;
      if (count > max)
        throw coded('bound', `a page has ${count} characters, at most ${max} are read`);
      let mapErrors = 0;
      for (let i = 0; i < count; i += 1) {
        if (pdfium._FPDFText_HasUnicodeMapError(text, i) === 1) mapErrors += 1;
      }
      return { text: textOfChars(this.#chars(text, count)), mapErrors };
    } finally {
      pdfium._FPDFText_ClosePage(text);
    }
  }

  *#chars(text: number, count: number): Generator<PageChar> {
    const { pdfium } = this;
    const rect = this.#allocate(16);
    let box: Float32Array = new Float32Array(0);
    for (let i = 0; i < count; i += 1) {
      const code = pdfium._FPDFText_GetUnicode(text, i);
      // Most calls would be for spaces and line ends, whose positions are not needed.
      if (code > SPACE) pdfium._FPDFText_GetLooseCharBox(text, i, rect);
      // The heap moves when it grows.
      if (box.buffer !== pdfium.HEAPU8.buffer)
        box = new Float32Array(pdfium.HEAPU8.buffer, rect, 4);
      const [left = 0, top = 0, right = 0, bottom = 0] = box;
      yield { code, left, right, bottom, top };
    }
    pdfium.wasmExports.free(rect);
  }

  /** True for a page that shows pictures. @throws as `render` */
  hasPictures(index: number): boolean {
    return this.#guarded(
      () => (this.#withPage(index, (page) => this.#countPictures(page, index)) ?? 0) > 0,
    );
  }

  /** A picture's size is stored before its data, so it is known without unpacking. */
  #countPictures(page: number, index: number): number {
    let pictures = 0;
    const { pdfium } = this;
    const size = this.#allocate(8);
    const count = pdfium._FPDFPage_CountObjects(page);
    for (let i = 0; i < count; i += 1) {
      const object = pdfium._FPDFPage_GetObject(page, i);
      if (pdfium._FPDFPageObj_GetType(object) !== IMAGE_OBJECT) continue;
      pictures += 1;
      pdfium._FPDFImageObj_GetImagePixelSize(object, size, size + 4);
      const [width = 0, height = 0] = new Uint32Array(pdfium.HEAPU8.buffer, size, 2);
      const max = this.bounds.pixelsMax;
      if (width * height > max) {
        const what = `a picture on page ${index + 1} has ${width} × ${height} pixels`;
        throw coded('bound', `${what}, at most ${max} are read`);
      }
    }
    pdfium.wasmExports.free(size);
    return pictures;
  }

  #render(page: number): GreyPicture {
    const { pdfium } = this;
    const wide = Math.max(1, pdfium._FPDF_GetPageWidth(page) * SCALE);
    const high = Math.max(1, pdfium._FPDF_GetPageHeight(page) * SCALE);
    const shrink = shrinkOf(wide, high, this.bounds.pixelsMax);
    const width = Math.max(1, Math.floor(wide * shrink));
    const height = Math.max(1, Math.floor(high * shrink));
    const bitmap = pdfium._FPDFBitmap_CreateEx(width, height, GREY_BITMAP, 0, 0);
    if (bitmap === 0) throw coded('bound', `a page of ${width} × ${height} pixels found no memory`);
    try {
      pdfium._FPDFBitmap_FillRect(bitmap, 0, 0, width, height, WHITE);
      const flags = RENDER_ANNOTATIONS | RENDER_GREY;
      pdfium._FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, flags);
      return { width, height, pixels: this.#pixels(bitmap, width, height) };
    } finally {
      pdfium._FPDFBitmap_Destroy(bitmap);
    }
  }

  /** Rows begin at multiples of four bytes. */
  #pixels(bitmap: number, width: number, height: number): Uint8Array {
    const { pdfium } = this;
    const from = pdfium._FPDFBitmap_GetBuffer(bitmap);
    const stride = pdfium._FPDFBitmap_GetStride(bitmap);
    const pixels = new Uint8Array(width * height);
    for (let y = 0; y < height; y += 1) {
      const row = from + y * stride;
      pixels.set(pdfium.HEAPU8.subarray(row, row + width), y * width);
    }
    return pixels;
  }

  #guarded<Result>(work: () => Result): Result {
    try {
      return guarded(work);
    } catch (cause) {
      this.#sound = false;
      throw cause;
    }
  }

  #allocate(bytes: number): number {
    const at = this.pdfium.wasmExports.malloc(bytes);
    if (at === 0) throw coded('bound', 'the document takes more memory than its reader has');
    return at;
  }
}

const TITLE_BYTES_MAX = 4096;

function openingError(code: number): Error {
  if (code === PASSWORD_ERROR) return coded('encrypted', 'it opens with a password only');
  if (code === SECURITY_ERROR)
    return coded('encrypted', 'it is encrypted in a way that is not known');
  return coded('damaged', 'it is no PDF, or too damaged to be read');
}

/** A document that makes pdfium fail counts as damaged. */
function guarded<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause) throw cause;
    throw Object.assign(new Error('it is too damaged to be read', { cause }), { code: 'damaged' });
  }
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
