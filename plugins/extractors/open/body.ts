/**
 * Owns what the elements of OpenDocument mean for the text of documents and slides.
 * It must never show what the document deleted, or a form's instructions.
 */
import { FormulaReader } from '../markup/formula.js';
import { attribute, type MarkupHandler } from '../markup/walk.js';
import { commentLine } from '../office/comments.js';
import { type Flow, PLAIN } from '../shared/flow.js';
import type { OpenLists } from './lists.js';

type Attributes = Readonly<Record<string, string>>;

const unseen = new Set([
  'tracked-changes',
  'note-citation',
  'ruby-text',
  'date-string',
  'binary-data',
  'event-listeners',
  'sequence-decls',
  'forms',
  'tracked-change',
]);
/** What a picture shows, in its author's words. */
const described = new Set(['title', 'desc']);
const drawn = new Set(['frame', 'g', 'custom-shape', 'a', 'rect', 'path', 'polygon', 'ellipse']);
const SPACES_MAX = 1000;
const SPAN_MAX = 63;

/** Lines of an object that lies in a part of its own. */
export type ObjectText = (reference: string) => readonly string[];

export class OpenBody implements MarkupHandler {
  flow: Flow;
  readonly #lists: OpenLists;
  readonly #objects: ObjectText;
  readonly #open: string[] = [];
  /** References to pictures. */
  #pictures: string[] = [];
  #formula: FormulaReader | null = null;
  #unseen = 0;
  #inParagraph = 0;
  #heading = 0;
  #marker = '';
  /** One for each open item of a list: its first paragraph has not begun. */
  readonly #items: boolean[] = [];
  readonly #spans: number[] = [];
  readonly #authors: string[] = [];
  /** One for each open frame: it holds the title of a slide. */
  readonly #titles: boolean[] = [];
  #atStart = true;

  constructor(flow: Flow, lists: OpenLists, objects: ObjectText = () => []) {
    this.flow = flow;
    this.#lists = lists;
    this.#objects = objects;
  }

  /** Those that were met since the last call. */
  takePictures(): string[] {
    return this.#pictures.splice(0);
  }

  open(name: string, attributes: Attributes): void {
    if (this.#formula !== null) {
      this.#formula.open(name, attributes);
      return;
    }
    const parent = this.#open.at(-1) ?? '';
    this.#open.push(name);
    if (this.#unseen > 0 || unseen.has(name) || (name === 'date' && parent === 'annotation')) {
      this.#unseen += 1;
    } else if (name === 'p' || name === 'h') this.#openParagraph(name, attributes);
    else if (described.has(name) && drawn.has(parent)) this.#openBox();
    else this.#openPart(name, attributes);
  }

  text(text: string): void {
    if (this.#formula !== null) {
      this.#formula.text(text);
      return;
    }
    if (this.#unseen > 0) return;
    const [name, parent] = [this.#open.at(-1) ?? '', this.#open.at(-2) ?? ''];
    if (name === 'creator' && parent === 'annotation') {
      this.#authors[this.#authors.length - 1] = text.trim();
    } else if (this.#inParagraph > 0 || (described.has(name) && drawn.has(parent))) {
      const line = text.replace(/[ \t\r\n]+/g, ' ');
      this.#put(this.#atStart ? line.trimStart() : line);
    }
  }

  close(name: string): void {
    if (this.#formula !== null) {
      this.#closeFormula(this.#formula);
      return;
    }
    this.#open.pop();
    const parent = this.#open.at(-1) ?? '';
    if (this.#unseen > 0) this.#unseen -= 1;
    else if (name === 'p' || name === 'h') this.#closeParagraph();
    else if (described.has(name) && drawn.has(parent)) this.#closeBox();
    else this.#closePart(name);
  }

  #openParagraph(name: string, attributes: Attributes): void {
    this.#inParagraph += 1;
    this.#heading = name === 'h' ? Number(attribute(attributes, 'outline-level')) || 1 : 0;
    if (this.#isTitle) this.#heading = 1;
    const at = this.#items.length - 1;
    this.#marker = this.#items[at] === true ? this.#lists.marker() : '';
    if (at >= 0) this.#items[at] = false;
    this.flow.openParagraph();
    this.#atStart = true;
  }

  #closeParagraph(): void {
    this.#inParagraph -= 1;
    const [heading, marker] = [Math.min(this.#heading, 6), this.#marker];
    const depth = this.#items.length > 0 ? this.#lists.depth : 0;
    this.flow.closeParagraph(
      heading + depth === 0 && marker === '' ? PLAIN : { heading, marker, depth },
    );
    [this.#heading, this.#marker] = [0, ''];
    this.#atStart = true;
  }

  #openPart(name: string, attributes: Attributes): void {
    switch (name) {
      case 's':
        this.#put(' '.repeat(Math.min(Number(attribute(attributes, 'c') ?? 1) || 1, SPACES_MAX)));
        break;
      case 'tab':
        this.#put('\t');
        break;
      case 'line-break':
        this.#put('\n');
        this.#atStart = true;
        break;
      case 'soft-page-break':
        this.flow.breakPage();
        break;
      case 'list':
        this.#lists.openList(attributes);
        break;
      case 'list-item':
        this.#items.push(true);
        break;
      case 'list-header':
        this.#items.push(false);
        break;
      case 'table':
        this.flow.openTable();
        break;
      case 'table-cell':
        this.#spans.push(spanOf(attributes));
        this.flow.openCell();
        break;
      case 'frame':
        this.#titles.push(attribute(attributes, 'class') === 'title');
        break;
      case 'text-box':
        if (!this.#isTitle) this.#openBox();
        break;
      case 'note':
      case 'notes':
        this.#openBox();
        break;
      case 'annotation':
        this.#authors.push('');
        this.#openBox();
        break;
      case 'image':
        this.#picture(attribute(attributes, 'href') ?? '');
        break;
      case 'math':
        this.#open.pop();
        this.#formula = new FormulaReader(name, attributes);
        break;
      case 'object':
        this.#object(attribute(attributes, 'href') ?? '');
    }
  }

  #closePart(name: string): void {
    switch (name) {
      case 'list':
        this.#lists.closeList();
        break;
      case 'list-item':
      case 'list-header':
        this.#items.pop();
        break;
      case 'table':
        this.flow.closeTable();
        break;
      case 'table-row':
        this.flow.closeRow();
        break;
      case 'table-cell':
        this.flow.closeCell(this.#spans.pop() ?? 1);
        break;
      case 'frame':
        this.#titles.pop();
        break;
      case 'text-box':
        if (!this.#isTitle) this.#closeBox();
        break;
      case 'note':
        this.#note(this.#takeBox());
        break;
      case 'notes':
        this.#speakerNotes(this.#takeBox());
        break;
      case 'annotation':
        this.#comment(this.#takeBox(), this.#authors.pop() ?? '');
    }
  }

  /** A heading stands beside what is drawn, not in it. */
  get #isTitle(): boolean {
    return this.#titles.at(-1) === true && this.#outside.length === 0;
  }

  #put(text: string): void {
    if (text === '') return;
    this.flow.text(text);
    this.#atStart = /[ \n]$/.test(text);
  }

  // ---------------------------------------------------- what lies in a paragraph

  /** What was open goes on behind it. */
  readonly #outside: { heading: number; marker: string; inParagraph: number; atStart: boolean }[] =
    [];

  #openBox(): void {
    this.#outside.push({
      heading: this.#heading,
      marker: this.#marker,
      inParagraph: this.#inParagraph,
      atStart: this.#atStart,
    });
    [this.#heading, this.#marker, this.#inParagraph, this.#atStart] = [0, '', 0, true];
    this.flow.openBox();
  }

  #restore(): void {
    const outside = this.#outside.pop();
    if (outside === undefined) return;
    this.#heading = outside.heading;
    this.#marker = outside.marker;
    this.#inParagraph = outside.inParagraph;
    this.#atStart = outside.atStart;
  }

  #closeBox(): void {
    this.flow.closeBox();
    this.#restore();
  }

  #takeBox(): string {
    const text = this.flow.takeBox();
    this.#restore();
    return text;
  }

  #note(text: string): void {
    if (text === '') return;
    this.flow.note(text);
    this.#atStart = false;
  }

  #comment(text: string, author: string): void {
    if (text !== '') this.#note(commentLine({ author, cell: '', text }));
  }

  #speakerNotes(text: string): void {
    if (text === '') return;
    this.flow.gap();
    this.flow.text(`Notes: ${text}`);
    this.flow.closeParagraph();
  }

  /** A picture of an object stands beside the object itself. */
  #picture(reference: string): void {
    if (!/ObjectReplacements\//.test(reference)) this.#pictures.push(reference);
  }

  #closeFormula(formula: FormulaReader): void {
    if (!formula.close()) return;
    this.#formula = null;
    const latex = formula.latex();
    if (latex !== '') this.#put(latex);
  }

  #object(reference: string): void {
    const lines = this.#objects(reference);
    if (lines.length === 0) return;
    this.#openBox();
    for (const line of lines) {
      this.flow.text(line);
      this.flow.closeParagraph();
    }
    this.#closeBox();
  }
}

function spanOf(attributes: Attributes): number {
  const columns = Number(attribute(attributes, 'number-columns-spanned') ?? 1);
  return Math.min(Math.max(Math.trunc(columns) || 1, 1), SPAN_MAX);
}
