/**
 * Owns the text of SVG drawings, in the order in which it is written.
 * It must never follow a reference or expand an entity that the document declares.
 */
import { createRequire } from 'node:module';
import type * as Saxes from 'saxes';

/** Loaded by the first drawing: each reader of documents starts with this file. */
const library = () => createRequire(import.meta.url)('saxes') as typeof Saxes;

export interface SvgText {
  readonly text: string;
  readonly title: string;
}

/** Elements that show their content as text. */
const shown = new Set(['text', 'foreignObject']);
/** Elements within them that begin a line, or a place of their own. */
const blocks = new Set(['p', 'div', 'li', 'br', 'tr', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6']);
const hidden = new Set(['style', 'script']);

/** @throws Error with a `code` of `damaged` or `bound`. */
export function textOfSvg(markup: string, nestingMax: number): SvgText {
  const collector = new SvgCollector(nestingMax);
  const parser = new (library().SaxesParser)({ xmlns: false });
  let isBroken = false;
  parser.on('error', () => {
    isBroken = true;
  });
  parser.on('opentag', ({ name, attributes }) => collector.open(name, attributes));
  parser.on('closetag', ({ name }) => collector.close(name));
  parser.on('text', (text) => collector.text(text));
  parser.on('cdata', (text) => collector.text(text));
  parser.write(markup).close();
  const found = collector.result();
  // Broken markup is accepted when its text was still found.
  if (isBroken && found.text === '') throw coded('damaged', 'its markup is broken');
  return found;
}

class SvgCollector {
  readonly #open: string[] = [];
  #shownDepth = 0;
  #hiddenDepth = 0;
  #line = '';
  #lines: string[] = [];
  #title = '';

  constructor(private readonly nestingMax: number) {}

  open(name: string, attributes: Readonly<Record<string, string>>): void {
    if (this.#open.length >= this.nestingMax) {
      throw coded('bound', `its elements lie more than ${this.nestingMax} deep`);
    }
    const local = localOf(name);
    this.#open.push(local);
    if (shown.has(local)) this.#shownDepth += 1;
    if (hidden.has(local)) this.#hiddenDepth += 1;
    const startsLine = attributes.y !== undefined || attributes.dy !== undefined;
    if (shown.has(local) || blocks.has(local) || (local === 'tspan' && startsLine)) this.#endLine();
    else if (local === 'tspan' && attributes.x !== undefined) this.#line += '\t';
  }

  close(name: string): void {
    const local = localOf(name);
    this.#open.pop();
    if (hidden.has(local)) this.#hiddenDepth -= 1;
    if (shown.has(local)) this.#shownDepth -= 1;
    if (shown.has(local) || blocks.has(local)) this.#endLine();
  }

  text(text: string): void {
    if (this.#hiddenDepth > 0) return;
    if (this.#shownDepth > 0) this.#line += text.replace(/\s+/g, ' ');
    else if (this.#open.length === 2 && this.#open[1] === 'title') this.#title += text;
  }

  result(): SvgText {
    this.#endLine();
    return { text: this.#lines.join('\n'), title: this.#title.replace(/\s+/g, ' ').trim() };
  }

  #endLine(): void {
    const line = this.#line
      .replace(/ {2,}/g, ' ')
      .replace(/ ?\t ?/g, '\t')
      .trim();
    if (line !== '') this.#lines.push(line);
    this.#line = '';
  }
}

function localOf(name: string): string {
  return name.slice(name.indexOf(':') + 1);
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
