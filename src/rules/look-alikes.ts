/**
 * Owns the marks that keep a client's text from becoming a special token, whatever template it passes through.
 * It must never mark other text: templates trim, split and compare their values.
 */

/** Breaks, ends and images, written with noncharacters in a form that no input of this prompt has. */
export interface Marks {
  readonly divider: string;
  /** Ends the text of a client. */
  readonly end: string;
  image(index: number): string;
  /** Matches an image's mark; its group is the index. */
  readonly imagePattern: RegExp;
}

/**
 * A mark is U+FDD1, a number and one of U+FDD2…U+FDD4. The number is the first that no input has there, so that
 * marks stay short whatever a client sends, and none can begin or end inside another text.
 */
export function marksFor(inputs: string): Marks {
  const taken = new Set([...inputs.matchAll(/\uFDD1(\d{1,9})(?=[\uFDD2-\uFDD4])/g)].map(numberOf));
  let number = 0;
  while (taken.has(number)) number += 1;
  const head = `\uFDD1${number}`;
  return {
    divider: `${head}\uFDD2`,
    end: `${head}\uFDD3`,
    image: (index) => `${head}\uFDD4${index}\uFDD2`,
    imagePattern: new RegExp(`${head}\uFDD4(\\d+)\uFDD2`),
  };
}

function numberOf(found: RegExpMatchArray): number {
  return Number(found[1]);
}

/** Knows the special tokens of one vocabulary by their texts. */
export class LookAlikes {
  /** Matches the first character of each special text, also of overlapping ones. */
  readonly #starts: RegExp;
  readonly #beginnings: ReadonlySet<string>;
  readonly #endings: ReadonlySet<string>;
  readonly #firsts: RegExp;
  readonly #lasts: RegExp;
  readonly #all: string;
  readonly #lengthMax: number;

  constructor(specials: readonly string[]) {
    this.#starts = new RegExp(`(?=${specialPattern(specials).source})[^]`, 'g');
    this.#beginnings = partsOf(specials, (text, length) => text.slice(0, length));
    this.#endings = partsOf(specials, (text, length) => text.slice(-length));
    this.#firsts = anyOf(specials.map((text) => text.charAt(0)));
    this.#lasts = anyOf(specials.map((text) => text.charAt(text.length - 1)));
    this.#all = specials.join('\0');
    this.#lengthMax = Math.max(0, ...specials.map(({ length }) => length));
  }

  isRisky(text: string): boolean {
    return text.search(this.#starts) >= 0 || this.#edges(text).length > 0;
  }

  /** `text` with a mark wherever it contains a special token, or could complete one with its neighbours. */
  guard(text: string, mark: string): string {
    const edges = [...new Set(this.#edges(text))].sort((a, b) => a - b);
    const parts = [0, ...edges].map((from, at) => text.slice(from, edges[at]));
    return parts.map((part) => part.replace(this.#starts, `$&${mark}`)).join(mark);
  }

  /** A template may trim: the ends of both the text and its trimmed form are guarded. */
  #edges(text: string): number[] {
    if (text === '' || this.#all === '') return [];
    const start = text.length - text.trimStart().length;
    const end = text.trimEnd().length;
    const ends = [end, text.length].filter((at) => this.#beginsAtEnd(text, at));
    const starts = [start, 0].filter((at) => this.#endsAtStart(text, at));
    const isInside = this.#isInside(text.slice(start, end));
    return [...ends, ...starts, ...(isInside ? [start] : [])];
  }

  /** Plain words stay unmarked, since templates compare them; no template may write `<|{{ name }}|>`. */
  #isInside(text: string): boolean {
    return text.length < this.#lengthMax && /\W/.test(text) && this.#all.includes(text);
  }

  #beginsAtEnd(text: string, end: number): boolean {
    const tail = text.slice(Math.max(0, end - this.#lengthMax), end);
    if (!this.#firsts.test(tail)) return false;
    return lengthsOf(tail).some((length) => this.#beginnings.has(tail.slice(-length)));
  }

  #endsAtStart(text: string, start: number): boolean {
    const head = text.slice(start, start + this.#lengthMax);
    if (!this.#lasts.test(head)) return false;
    return lengthsOf(head).some((length) => this.#endings.has(head.slice(0, length)));
  }
}

/** Finds special tokens in rendered text, the longest first. */
export function specialPattern(specials: readonly string[]): RegExp {
  const longestFirst = specials.toSorted((a, b) => b.length - a.length);
  return longestFirst.length === 0 ? /(?!)/g : new RegExp(longestFirst.map(escaped).join('|'), 'g');
}

function lengthsOf(text: string): number[] {
  return Array.from(text, (_, at) => at + 1);
}

function partsOf(
  specials: readonly string[],
  part: (text: string, length: number) => string,
): ReadonlySet<string> {
  return new Set(
    specials.flatMap((text) => lengthsOf(text.slice(1)).map((length) => part(text, length))),
  );
}

function anyOf(characters: readonly string[]): RegExp {
  return characters.length === 0
    ? /(?!)/
    : new RegExp([...new Set(characters)].map(escaped).join('|'));
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
