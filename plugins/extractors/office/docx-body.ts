/**
 * Owns what the elements of a docx mean for its text: body, headers and footers, notes, text boxes, tables.
 * It must never show what the document deleted, or the same box twice.
 */

import { attribute, type MarkupHandler } from '../markup/walk.js';
import type { Flow } from '../shared/flow.js';
import type { DocxLists, ParagraphMark } from './docx-lists.js';
import { readMark } from './docx-lists.js';
import { attributeValue } from './package.js';

type Attributes = Readonly<Record<string, string>>;

/** Their content is deleted, a duplicate, or an instruction to the program. */
const skipped = new Set(['Fallback', 'moveFrom', 'del', 'rt', 'instrText', 'delText', 'pPrChange']);

export class DocxBody implements MarkupHandler {
  readonly #flow: Flow;
  readonly #lists: DocxLists;
  readonly #notes: ReadonlyMap<string, string>;
  /** One entry for each open paragraph: a text box nests paragraphs inside a paragraph. */
  readonly #marks: ParagraphMark[] = [];
  /** Columns that the open cells span. */
  readonly #spans: number[] = [];
  #skipping = 0;
  #inText = 0;

  constructor(flow: Flow, lists: DocxLists, notes: ReadonlyMap<string, string>) {
    this.#flow = flow;
    this.#lists = lists;
    this.#notes = notes;
  }

  open(name: string, attributes: Attributes): void {
    if (this.#skipping > 0 || skipped.has(name)) {
      this.#skipping += 1;
      return;
    }
    switch (name) {
      case 't':
        this.#inText += 1;
        break;
      case 'p':
        this.#marks.push({});
        this.#flow.openParagraph();
        break;
      case 'tbl':
        this.#flow.openTable();
        break;
      case 'tc':
        this.#spans.push(1);
        this.#flow.openCell();
        break;
      case 'txbxContent':
        this.#flow.openBox();
        break;
      default:
        this.#openInline(name, attributes);
    }
  }

  text(text: string): void {
    if (this.#inText > 0 && this.#skipping === 0) this.#flow.text(text);
  }

  close(name: string): void {
    if (this.#skipping > 0) {
      this.#skipping -= 1;
      return;
    }
    switch (name) {
      case 't':
        this.#inText -= 1;
        break;
      case 'p':
        this.#flow.closeParagraph(this.#lists.styleOf(this.#marks.pop() ?? {}));
        break;
      case 'tbl':
        this.#flow.closeTable();
        break;
      case 'tr':
        this.#flow.closeRow();
        break;
      case 'tc':
        this.#flow.closeCell(this.#spans.pop());
        break;
      case 'txbxContent':
        this.#flow.closeBox();
    }
  }

  #openInline(name: string, attributes: Attributes): void {
    switch (name) {
      case 'tab':
        // Tab stops of a style have the same name as a tab in the text.
        if (attribute(attributes, 'pos') === undefined) this.#flow.text('\t');
        break;
      case 'br':
        this.#openBreak(attributes);
        break;
      case 'cr':
        this.#flow.text('\n');
        break;
      case 'lastRenderedPageBreak':
        this.#flow.breakPage();
        break;
      case 'noBreakHyphen':
        this.#flow.text('\u2011');
        break;
      case 'gridSpan':
        if (this.#spans.length > 0) this.#spans[this.#spans.length - 1] = spanOf(attributes);
        break;
      case 'footnoteReference':
      case 'endnoteReference':
        this.#openNote(name, attributes);
        break;
      default:
        this.#openProperty(name, attributes);
    }
  }

  #openProperty(name: string, attributes: Attributes): void {
    const mark = this.#marks.at(-1);
    if (mark === undefined) return;
    if (name === 'pStyle') mark.style = attributeValue(attributes);
    else readMark(mark, name, attributes);
  }

  #openBreak(attributes: Attributes): void {
    const type = attribute(attributes, 'type');
    if (type === 'page') this.#flow.breakPage();
    else this.#flow.text('\n');
  }

  #openNote(reference: string, attributes: Attributes): void {
    const id = attribute(attributes, 'id') ?? '';
    const text = this.#notes.get(`${reference}${id}`);
    if (text !== undefined && text !== '') this.#flow.note(text);
  }
}

const SPAN_MAX = 63;

function spanOf(attributes: Attributes): number {
  return Math.min(Math.max(Math.trunc(Number(attributeValue(attributes))) || 1, 1), SPAN_MAX);
}
