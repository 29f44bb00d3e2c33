/**
 * Owns the text of a GBNF grammar while it is written: named rules, literals, repetition, and the bounds on all of it.
 * It must never know what a JSON schema is.
 */
import { limits } from 'preface/plugin';
import { type Cost, SchemaError } from './cost.js';

const BLOCK = 256;

/** Rules every JSON grammar may use. White space is bounded, or a small model never stops making it. */
const BASE: Readonly<Record<string, string>> = {
  ws: String.raw`| " " | "\n" " "{0,20}`,
  hex: '[0-9a-fA-F]',
  // No half of a surrogate pair by escape: a character is one character, and the text stays well-formed.
  escape: String.raw`"\\" ( ["\\/bfnrt] | "u" ( [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex ) )`,
  char: String.raw`[^"\\\x00-\x1F] | escape`,
  string: String.raw`"\"" char* "\""`,
  natural: '"0" | [1-9] [0-9]{0,15}',
  fraction: '"." [0-9]{1,16}',
  integer: '"-"? natural',
  number: '"-"? natural fraction? ( [eE] [-+]? [0-9]{1,2} )?',
  boolean: '"true" | "false"',
  pair: 'string ":" ws any',
  object: '"{" ws ( pair ( "," ws pair )* ws )? "}"',
  array: '"[" ws ( any ( "," ws any )* ws )? "]"',
  any: 'object | array | string | number | boolean | "null"',
};

export class Rules {
  readonly #bodies = new Map<string, string>(Object.entries(BASE));
  readonly #names = new Map<string, string>();
  #length = 0;

  constructor(readonly cost: Cost) {}

  /** A name to be defined later, for what refers to itself. */
  reserve(): string {
    const name = `r${this.#bodies.size}`;
    // One that is never defined must not take the next line for its own.
    this.#bodies.set(name, '""');
    this.cost.check(this.#bodies.size, limits.grammarRulesMax, 'grammar rules');
    return name;
  }

  define(name: string, body: string): void {
    this.#bodies.set(name, body);
    this.#length += body.length;
    this.cost.check(this.#length, limits.grammarLengthMax, 'characters of grammar');
  }

  /** The rule with this body; the same body is one rule, so that equal alternatives are one. */
  rule(text: string): string {
    // An empty alternative has to be written, or the grammar's parser reads on into the next line.
    const body = text.trim() === '' ? '""' : text;
    if (this.#bodies.has(body)) return body;
    const known = this.#names.get(body);
    if (known) return known;
    const name = this.reserve();
    this.define(name, body);
    this.#names.set(body, name);
    return name;
  }

  either(bodies: readonly string[]): string {
    return this.rule([...new Set(bodies.map((body) => this.rule(body)))].join(' | '));
  }

  /** Between `min` and `max` times; long counts in blocks, since each step of a plain count is a rule. */
  repeat(item: string, min: number, max: number): string {
    const rule = this.rule(item);
    const most = max === Number.POSITIVE_INFINITY ? min : max;
    if (most > limits.grammarRepeatMax) {
      throw new SchemaError(`${this.cost.place} counts to more than ${limits.grammarRepeatMax}`);
    }
    const exactly = this.#exactly(rule, min);
    if (max === Number.POSITIVE_INFINITY) return `${exactly} ${rule}*`;
    return `${exactly} ${this.#atMost(rule, max - min)}`;
  }

  #exactly(rule: string, count: number): string {
    const blocks = Math.floor(count / BLOCK);
    const rest = count % BLOCK;
    const block = blocks > 0 ? `${this.rule(`${rule}{${BLOCK}}`)}{${blocks}} ` : '';
    return rest > 0 ? `${block}${rule}{${rest}}` : block;
  }

  #atMost(rule: string, count: number): string {
    if (count <= 0) return '';
    if (count <= BLOCK) return `${rule}{0,${count}}`;
    const blocks = Math.floor(count / BLOCK);
    const block = this.rule(`${rule}{${BLOCK}}`);
    const short = `${block}{0,${blocks - 1}} ${rule}{0,${BLOCK - 1}}`;
    return `( ${short} | ${block}{${blocks}} ${rule}{0,${count % BLOCK}} )`;
  }

  text(root: string): string {
    const lines = [`root ::= ${root}`];
    for (const [name, body] of this.#bodies) lines.push(`${name} ::= ${body}`);
    return lines.join('\n');
  }
}

/** A literal of GBNF. */
export function literal(text: string): string {
  const escaped = [...text].map((character) =>
    /[ -~]/.test(character) && character !== '"' && character !== '\\'
      ? character
      : codePoint(character),
  );
  return `"${escaped.join('')}"`;
}

/** A character as it may stand in a literal or a class. */
export function codePoint(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`;
  if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}
