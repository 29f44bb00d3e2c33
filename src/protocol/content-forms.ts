/**
 * Owns the forms in which the text of a file is answered: as it is, as Markdown, by page.
 * It must never hold more of a text than one line, and of a line no more than its bound.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { quoted } from './field.js';
import { MarkdownLines } from './markdown-lines.js';

export const contentFormats = ['text', 'markdown', 'pages'] as const;
export type ContentFormat = (typeof contentFormats)[number];

/** @param query raw, without the question mark. @throws ApiError for a value that is not allowed, or given twice. */
export function parseContentFormat(query: string): ContentFormat {
  const values = new URLSearchParams(query).getAll('format');
  if (values.length > 1) throw invalid("'format' must be given once", 'format');
  const [value = 'text'] = values;
  const format = contentFormats.find((each) => each === value);
  if (format !== undefined) return format;
  const allowed = contentFormats.map((each) => `'${each}'`).join(', ');
  throw invalid(`format must be one of ${allowed}, got ${quoted(value)}`, 'format');
}

export interface ContentShown {
  readonly fileType: string;
  readonly filename: string;
  readonly title: string;
  readonly details: string;
}

/** What is sent around the stored text, which is a JSON string, and what becomes of its bytes on the way. */
export interface ContentForm {
  readonly head: string;
  readonly tail: string;
  /** @param bytes null ends the text. */
  readonly change: (bytes: Buffer | null) => Iterable<Buffer> | AsyncIterable<Buffer>;
}

/** What goes with the text of each page, one after another. */
export interface PageNotesLines {
  /** The fields of the next page's JSON object, without the braces around them; empty for none. */
  next(): Promise<string>;
}

export const asStored = (bytes: Buffer | null) => (bytes === null ? [] : [bytes]);

/** @param notes only `pages` asks for them; null: there are none. */
export function contentForm(
  format: ContentFormat,
  shown: ContentShown,
  notes: PageNotesLines | null = null,
): ContentForm {
  const { fileType, filename, title, details } = shown;
  const rest = JSON.stringify({ file_type: fileType, filename, title, type: 'file' }).slice(1);
  if (format === 'pages') {
    const tail = `],"details":${JSON.stringify(details)},${rest}`;
    const parted = new PageParts(notes);
    return { head: '{"pages":[{"page":1,"text":', tail, change: (bytes) => parted.change(bytes) };
  }
  const frame = { head: '{"content":', tail: `,${rest}` };
  if (format === 'text' || isWrittenText(fileType)) return { ...frame, change: asStored };
  const markdown = new MarkdownText();
  return { ...frame, change: (bytes) => [markdown.change(bytes)] };
}

/** Its author chose its marks and tabs. */
function isWrittenText(fileType: string): boolean {
  return /^text\/(?!html$|tab-separated-values$)|^application\/(?:json|yaml|toml|xml)$/.test(
    fileType,
  );
}

const BACKSLASH = 0x5c;
const QUOTE = 0x22;
const PAGE_END = 0x66;
const LINE_END = 0x6e;

/** Cuts a JSON string at the page breaks within it, and puts behind each page what goes with it. */
class PageParts {
  #page = 1;
  /** Half of an escape, of the end of the last piece. */
  #held = Buffer.alloc(0);

  constructor(readonly notes: PageNotesLines | null) {}

  async *change(bytes: Buffer | null): AsyncGenerator<Buffer> {
    if (bytes === null) {
      yield Buffer.concat([this.#held, await this.#end()]);
      return;
    }
    const all = Buffer.concat([this.#held, bytes]);
    this.#held = Buffer.alloc(0);
    let from = 0;
    for (let at = all.indexOf(BACKSLASH); at !== -1; at = all.indexOf(BACKSLASH, at + 2)) {
      if (at + 1 === all.length) {
        yield all.subarray(from, at);
        this.#held = Buffer.from([BACKSLASH]);
        from = all.length;
      } else if (all[at + 1] === PAGE_END) {
        yield Buffer.concat([all.subarray(from, at), Buffer.from('"'), await this.#end()]);
        this.#page += 1;
        yield Buffer.from(`,{"page":${this.#page},"text":"`);
        from = at + 2;
      }
    }
    yield all.subarray(from);
  }

  async #end(): Promise<Buffer> {
    const fields = (await this.notes?.next()) ?? '';
    return Buffer.from(fields === '' ? '}' : `,${fields}}`);
  }
}

/** Changes a JSON string line by line. A line beyond the bound stays as it is. */
class MarkdownText {
  readonly #lines = new MarkdownLines();
  #out: Buffer[] = [];
  /** Of the line that is open, without what was sent of a long one. */
  #line: Buffer[] = [];
  #length = 0;
  #isLong = false;
  /** A backslash has come, and not yet what it escapes. */
  #isEscape = false;
  #isOpen = false;

  change(bytes: Buffer | null): Buffer {
    if (bytes !== null) this.#read(bytes);
    else {
      this.#endLine();
      this.#out.push(Buffer.from('"'));
    }
    return Buffer.concat(this.#out.splice(0));
  }

  #read(bytes: Buffer): void {
    let from = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (this.#isEscape) {
        this.#isEscape = false;
        if (byte !== LINE_END && byte !== PAGE_END) {
          if (at === 0) this.#hold(Buffer.from([BACKSLASH]));
          continue;
        }
        this.#hold(bytes.subarray(from, Math.max(at - 1, 0)));
        from = at + 1;
        this.#endLine();
        this.#out.push(Buffer.from(byte === PAGE_END ? '\\n\\n' : '\\n'));
      } else if (byte === BACKSLASH) this.#isEscape = true;
      else if (byte === QUOTE) {
        // Only the two around the text are not escaped.
        this.#hold(bytes.subarray(from, at));
        from = at + 1;
        if (!this.#isOpen) this.#out.push(Buffer.from('"'));
        this.#isOpen = true;
      }
    }
    this.#hold(bytes.subarray(from, this.#isEscape ? bytes.length - 1 : bytes.length));
  }

  #hold(bytes: Buffer): void {
    if (bytes.length === 0) return;
    // The next piece overwrites the memory of this one.
    this.#line.push(Buffer.from(bytes));
    this.#length += bytes.length;
    if (this.#length <= limits.contentChangedBytes) return;
    this.#isLong = true;
    this.#out.push(...this.#line.splice(0));
  }

  #endLine(): void {
    const line = Buffer.concat(this.#line.splice(0));
    const changed = this.#isLong
      ? line
      : Buffer.from(escaped(this.#lines.line(JSON.parse(`"${line.toString('utf8')}"`) as string)));
    this.#out.push(changed);
    [this.#length, this.#isLong] = [0, false];
  }
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
