/**
 * Owns the lists of an OpenDocument text: which marker stands before an item.
 * It must never read the text of an item.
 */
import { attribute } from '../markup/walk.js';
import { markerOf } from '../office/numbering.js';

type Attributes = Readonly<Record<string, string>>;

interface Level {
  /** Empty for a bullet. */
  readonly format: string;
  readonly prefix: string;
  readonly suffix: string;
  readonly start: number;
  /** How many levels are shown: `2.1`. */
  readonly shown: number;
}

const formats: Readonly<Record<string, string>> = {
  '1': 'decimal',
  a: 'lowerLetter',
  A: 'upperLetter',
  i: 'lowerRoman',
  I: 'upperRoman',
};
const LEVELS_MAX = 10;

export class OpenLists {
  readonly #styles = new Map<string, Map<number, Level>>();
  #style: Map<number, Level> | null = null;
  /** Names of the styles of the lists that are open. */
  readonly #open: string[] = [];
  #counts: number[] = [];
  #lastStyle = '';

  /** A definition within the styles. */
  define(element: string, attributes: Attributes): void {
    if (element === 'list-style') {
      this.#style = new Map();
      this.#styles.set(attribute(attributes, 'name') ?? '', this.#style);
    } else if (element.startsWith('list-level-style-')) {
      const level = Number(attribute(attributes, 'level')) || 1;
      this.#style?.set(level, {
        format: formats[attribute(attributes, 'num-format') ?? ''] ?? '',
        prefix: attribute(attributes, 'num-prefix') ?? '',
        suffix: attribute(attributes, 'num-suffix') ?? '',
        start: Number(attribute(attributes, 'start-value') ?? 1) || 0,
        shown: Number(attribute(attributes, 'display-levels') ?? 1) || 1,
      });
    }
  }

  openList(attributes: Attributes): void {
    const name = attribute(attributes, 'style-name') ?? this.#open.at(-1) ?? '';
    const goesOn = attribute(attributes, 'continue-numbering') === 'true';
    if (this.#open.length === 0 && !(goesOn && name === this.#lastStyle)) this.#counts = [];
    this.#open.push(name);
    if (this.#open.length === 1) this.#lastStyle = name;
  }

  closeList(): void {
    this.#open.pop();
    this.#counts.length = Math.min(this.#counts.length, this.#open.length + 1);
    if (this.#open.length > 0) this.#counts.length = this.#open.length;
  }

  /** Depth of the items of the open list, from 0. */
  get depth(): number {
    return Math.max(this.#open.length - 1, 0);
  }

  /** Counts the item. */
  marker(): string {
    const depth = Math.min(this.depth, LEVELS_MAX - 1);
    const style = this.#styles.get(this.#open.at(-1) ?? '');
    const level = style?.get(depth + 1);
    if (level === undefined || level.format === '') return '•';
    const first = (at: number) => style?.get(at + 1)?.start ?? 1;
    for (let at = 0; at < depth; at++) this.#counts[at] ??= first(at);
    this.#counts[depth] = (this.#counts[depth] ?? level.start - 1) + 1;
    const numbers: string[] = [];
    for (let at = Math.max(depth + 1 - level.shown, 0); at <= depth; at++) {
      const { format = 'decimal' } = style?.get(at + 1) ?? {};
      numbers.push(markerOf(format === '' ? 'decimal' : format, this.#counts[at] ?? 1));
    }
    return `${level.prefix}${numbers.join('.')}${level.suffix}`;
  }
}
