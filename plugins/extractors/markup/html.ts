/**
 * Owns web pages: detection, encoding, title, and text as a browser would show it.
 * It must never run a script, load what a page refers to, or take a program's source for a page.
 */
import type { DocumentClaim, DocumentPage, ExtractionBounds, SourceDocument } from 'preface/plugin';
import { declaredInHtml } from '../shared/declared.js';
import { Flow } from '../shared/flow.js';
import { documentPlugin } from '../shared/plugin.js';
import { refusal } from '../shared/refusal.js';
import { decodePieces, encodingOf } from '../text/encoding.js';
import { endingOf, textTypeOf } from '../text/types.js';
import { HtmlBody } from './html-body.js';
import { type MarkupHandler, readHtml } from './walk.js';

export default documentPlugin({
  name: 'extractor-html',
  accepts,
  pages,
});

const HEAD_BYTES = 4096;
const TITLE_LENGTH_MAX = 1000;

const typeByEnding = new Map([
  ['html', 'text/html'],
  ['htm', 'text/html'],
  ['shtml', 'text/html'],
  ['xhtml', 'application/xhtml+xml'],
  ['xht', 'application/xhtml+xml'],
]);

const opening =
  /^\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->)[\s\S])*-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]/i;

/** Programs write tables without a page around them, and name them as the office program does that is to open them. */
const part =
  /^\s*(?:<!--(?:(?!-->)[\s\S])*-->\s*)*<(?:table|div|p|h[1-6]|meta|title|style|header|main|section|article|ul|ol|center|font|span|form|b)[\s>]/i;
const documentEndings = new Set('doc docx xls xlsx ppt pptx rtf'.split(' '));

function accepts({ bytes, filename }: SourceDocument): DocumentClaim | null {
  const named = typeByEnding.get(endingOf(filename));
  if (named === undefined && !mayOpen(bytes)) return null;
  const encoding = encodingOf(bytes, declaredInHtml(bytes));
  if (encoding === null) return null;
  const fileType = named ?? 'text/html';
  // A template of PHP or Vue begins like a page but is source code.
  const other = textTypeOf(filename) !== undefined && endingOf(filename) !== 'xml';
  const head = headOf(bytes, encoding);
  const isPage = opening.test(head) || (documentEndings.has(endingOf(filename)) && part.test(head));
  if (!other && isPage) return { fileType, ground: 'content' };
  return named === undefined ? null : { fileType, ground: 'name' };
}

/** In every encoding a page begins with `<`; this test alone excludes most other documents. */
function mayOpen(bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES)).toString('latin1');
  return /^[\s\0\xef\xbb\xbf\xfe\xff]*</.test(head);
}

function* pages({ bytes }: SourceDocument, bounds: ExtractionBounds): Generator<DocumentPage> {
  const encoding = encodingOf(bytes, declaredInHtml(bytes));
  if (encoding === null) throw refusal('unsupported', 'it is not text');
  const flow = new Flow(bounds.textLengthMax);
  const page = new Page(flow);
  readHtml(decodePieces(bytes, encoding), page, bounds.nestingMax);
  page.end();
  const text = flow.end().join('\n');
  yield { text, pages: 1, title: page.title.replace(/\s+/g, ' ').trim() };
}

/** A page's body, and of its head the title. */
class Page implements MarkupHandler {
  title = '';
  readonly #body: HtmlBody;
  #inTitle = false;
  /** An inline picture may have its own title element. */
  #pictures = 0;

  constructor(flow: Flow) {
    this.#body = new HtmlBody(flow);
  }

  open(name: string, attributes: Readonly<Record<string, string>>): void {
    if (name === 'svg') this.#pictures += 1;
    this.#inTitle = name === 'title' && this.#pictures === 0 && this.title === '';
    this.#body.open(name, attributes);
  }

  text(text: string): void {
    if (this.#inTitle) this.title = (this.title + text).slice(0, TITLE_LENGTH_MAX);
    else this.#body.text(text);
  }

  close(name: string): void {
    if (name === 'svg') this.#pictures -= 1;
    if (name === 'title') this.#inTitle = false;
    this.#body.close(name);
  }

  end(): void {
    this.#body.end();
  }
}

function headOf(bytes: Uint8Array, encoding: string): string {
  for (const piece of decodePieces(bytes.subarray(0, HEAD_BYTES), encoding)) return piece;
  return '';
}
