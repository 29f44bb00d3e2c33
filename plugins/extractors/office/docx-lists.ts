/**
 * Owns the styles and lists of a docx: which paragraph is a heading, and which marker stands before an item.
 * It must never read the body.
 */

import { type MarkupHandler, readXml } from '../markup/walk.js';
import type { ParagraphStyle } from '../shared/flow.js';
import { ListCounter, type ListLevel } from './numbering.js';
import { attributeValue, ignore } from './package.js';

/** Of one paragraph, or of a style. Absent: as the style it is based on. */
export interface ParagraphMark {
  style?: string;
  list?: string;
  level?: number;
  /** From 0; 9 is body text. */
  outline?: number;
}

interface StyleMark extends ParagraphMark {
  base?: string;
}

type Levels = Map<number, ListLevel>;

const LEVELS_MAX = 9;
const STYLE_CHAIN_MAX = 32;

export class DocxLists {
  readonly #styles: ReadonlyMap<string, StyleMark>;
  readonly #lists: ReadonlyMap<string, Levels>;
  readonly #counter = new ListCounter();

  constructor(styles: Uint8Array | null, numbering: Uint8Array | null, depthMax: number) {
    this.#styles = styles === null ? new Map() : readStyles(styles, depthMax);
    this.#lists = numbering === null ? new Map() : readLists(numbering, depthMax);
  }

  /** Advances the counter: call it once for each paragraph, in order. */
  styleOf(mark: ParagraphMark): ParagraphStyle {
    const { outline = LEVELS_MAX, list, level = 0 } = this.#inherited(mark);
    const heading = outline < LEVELS_MAX ? outline + 1 : 0;
    const depth = Math.min(Math.max(level, 0), LEVELS_MAX - 1);
    const levels = list === undefined ? undefined : this.#lists.get(list);
    if (list === undefined || levels === undefined) return { heading, marker: '', depth: 0 };
    return { heading, marker: this.#counter.next(list, levels, depth), depth };
  }

  #inherited(mark: ParagraphMark): ParagraphMark {
    const found = { ...mark };
    let style = mark.style === undefined ? undefined : this.#styles.get(mark.style);
    for (let step = 0; style !== undefined && step < STYLE_CHAIN_MAX; step++) {
      if (found.outline === undefined && style.outline !== undefined) found.outline = style.outline;
      if (found.list === undefined && style.list !== undefined) found.list = style.list;
      if (found.level === undefined && style.level !== undefined) found.level = style.level;
      style = style.base === undefined ? undefined : this.#styles.get(style.base);
    }
    return found;
  }
}

/** Reads what a `pPr` says, in the body and in a style alike. */
export function readMark(
  mark: ParagraphMark,
  name: string,
  attributes: Readonly<Record<string, string>>,
): void {
  if (name === 'numId') mark.list = attributeValue(attributes);
  else if (name === 'ilvl') mark.level = Number(attributeValue(attributes)) || 0;
  else if (name === 'outlineLvl') mark.outline = Number(attributeValue(attributes)) || 0;
}

function readStyles(bytes: Uint8Array, depthMax: number): Map<string, StyleMark> {
  const styles = new Map<string, StyleMark>();
  let style: StyleMark = {};
  const handler: MarkupHandler = {
    open: (name, attributes) => {
      if (name === 'style') {
        style = {};
        styles.set(attributes['w:styleId'] ?? '', style);
      } else if (name === 'basedOn') style.base = attributeValue(attributes);
      else if (name === 'name') Object.assign(style, headingOf(attributeValue(attributes)), style);
      else readMark(style, name, attributes);
    },
    text: ignore,
    close: ignore,
  };
  readXml(bytes, handler, depthMax);
  return styles;
}

/** Word's own headings are recognised by name, because some writers omit their level. */
function headingOf(name: string): ParagraphMark {
  if (/^title$/i.test(name)) return { outline: 0 };
  const level = /^heading ([1-9])$/i.exec(name)?.[1];
  return level === undefined ? {} : { outline: Number(level) - 1 };
}

function readLists(bytes: Uint8Array, depthMax: number): Map<string, Levels> {
  const abstract = new Map<string, Levels>();
  const lists = new Map<string, Levels>();
  let levels: Levels = new Map();
  let level: ListLevel = { format: 'decimal', text: '', start: 1 };
  let list = '';
  const open: MarkupHandler['open'] = (name, attributes) => {
    if (name === 'abstractNum') {
      levels = new Map();
      abstract.set(attributes['w:abstractNumId'] ?? '', levels);
    } else if (name === 'num') list = attributes['w:numId'] ?? '';
    else if (name === 'abstractNumId') {
      levels = new Map(
        [...(abstract.get(attributeValue(attributes)) ?? [])].map(([at, of]) => [at, { ...of }]),
      );
      lists.set(list, levels);
    } else if (name === 'lvl' || name === 'lvlOverride') {
      const at = Number(attributes['w:ilvl']) || 0;
      level = levels.get(at) ?? { format: 'decimal', text: '', start: 1 };
      levels.set(at, level);
    } else if (name === 'start' || name === 'startOverride') {
      level.start = Number(attributeValue(attributes)) || 0;
    } else if (name === 'lvlRestart') {
      level.restartsAfter = Number(attributeValue(attributes)) || 0;
    } else if (name === 'numFmt') level.format = attributeValue(attributes);
    else if (name === 'lvlText') level.text = attributeValue(attributes);
  };
  readXml(bytes, { open, text: ignore, close: ignore }, depthMax);
  return lists;
}
