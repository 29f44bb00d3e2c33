/**
 * Owns the patterns: regular expressions that are parsed, checked for a longest match, and made into states.
 * It must never accept a pattern with an unbounded match or one that needs backtracking.
 */
import { limits } from 'preface/plugin';
import { type AST, parsedPattern } from '../../regexp.js';
import { foldText } from './fold.js';

/** A state takes one character, parts into two, asks for the edge of a word, or is the end of a rule. */
export type PatternState =
  | { readonly type: 'character'; readonly code: number; readonly next: number }
  | { readonly type: 'set'; readonly set: CharacterSet; readonly next: number }
  | { readonly type: 'split'; readonly nexts: readonly number[] }
  | { readonly type: 'edge'; readonly wanted: boolean; readonly next: number }
  | { readonly type: 'end'; readonly rule: string };

const CODES_REMEMBERED_MAX = 4_096;
const ASCII_END = 0x80;
const UNKNOWN = 2;

/** Which folded characters a class or a dot takes; one character at a time, so nothing can run away. */
export class CharacterSet {
  readonly #form: RegExp;
  readonly #remembered = new Map<number, boolean>();

  constructor(raw: string) {
    this.#form = new RegExp(`^${raw}$`, 'isu');
  }

  has(code: number): boolean {
    const known = this.#remembered.get(code);
    if (known !== undefined) return known;
    if (this.#remembered.size >= CODES_REMEMBERED_MAX) this.#remembered.clear();
    const has = this.#form.test(String.fromCodePoint(code));
    this.#remembered.set(code, has);
    return has;
  }
}

export interface PatternBounds {
  readonly lengthMax: number;
  readonly statesMax: number;
}

/** Says what is wrong with a pattern, and quotes the part as it was written. */
export class PatternFault extends Error {}

export class Patterns {
  readonly states: PatternState[] = [];
  /** Where each pattern begins. */
  readonly starts: number[] = [];
  readonly #bounds: PatternBounds;
  readonly #asciiFirsts = new Uint8Array(ASCII_END).fill(UNKNOWN);
  readonly #firsts = new Map<number, number>();

  constructor(bounds: PatternBounds) {
    this.#bounds = bounds;
  }

  /** @throws PatternFault */
  add(source: string, rule: string): void {
    const { alternatives } = parsed(source);
    const { min, max } = lengthOfAny(alternatives);
    if (min === 0) throw new PatternFault('could match nothing at all');
    if (max > this.#bounds.lengthMax) throw new PatternFault(tooLong(this.#bounds.lengthMax));
    const end = this.#push({ type: 'end', rule });
    this.starts.push(this.#any(alternatives, end));
  }

  /** Whether any pattern can begin with this character; most cannot, and cost nothing then. */
  mayBegin(code: number): boolean {
    if (code < 0 || this.starts.length === 0) return false;
    const known = code < ASCII_END ? this.#asciiFirsts[code] : this.#firsts.get(code);
    if (known !== undefined && known !== UNKNOWN) return known === 1;
    const begins = this.starts.some((start) => this.#takesFirst(start, code));
    if (this.#firsts.size >= CODES_REMEMBERED_MAX) this.#firsts.clear();
    if (code < ASCII_END) this.#asciiFirsts[code] = Number(begins);
    else this.#firsts.set(code, Number(begins));
    return begins;
  }

  /** Assumes that every word boundary matches. */
  #takesFirst(start: number, code: number): boolean {
    const stack = [start];
    const seen = new Set<number>();
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      if (seen.has(at)) continue;
      seen.add(at);
      const state = this.states[at] as PatternState;
      if (state.type === 'split') stack.push(...state.nexts);
      else if (state.type === 'edge') stack.push(state.next);
      else if (state.type === 'character' && state.code === code) return true;
      else if (state.type === 'set' && state.set.has(code)) return true;
    }
    return false;
  }

  /** Built from the end to the beginning, so that each part knows its successor. */
  #any(alternatives: readonly AST.Alternative[], next: number): number {
    const nexts = alternatives.map(({ elements }) =>
      elements.reduceRight((after, element) => this.#element(element, after), next),
    );
    const [only] = nexts;
    return nexts.length === 1 && only !== undefined ? only : this.#push({ type: 'split', nexts });
  }

  #element(element: AST.Element, next: number): number {
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup':
        return this.#any(element.alternatives, next);
      case 'Quantifier':
        return this.#repeated(element, next);
      case 'Character':
        return foldText(String.fromCodePoint(element.value)).reduceRight(
          (after, { code }) => this.#push({ type: 'character', code, next: after }),
          next,
        );
      case 'Assertion':
        return this.#push({ type: 'edge', wanted: !(element as NegatedEdge).negate, next });
      default:
        return this.#push({ type: 'set', set: new CharacterSet(element.raw), next });
    }
  }

  #repeated({ element, min, max }: AST.Quantifier, next: number): number {
    let after = next;
    for (let count = max; count > 0; count -= 1) {
      const once = this.#element(element, after);
      // An optional part may be skipped, together with the repetitions after it.
      after = count > min ? this.#push({ type: 'split', nexts: [once, next] }) : once;
    }
    return after;
  }

  #push(state: PatternState): number {
    if (this.states.length >= this.#bounds.statesMax) {
      throw new PatternFault('is one too many: all patterns together are too large');
    }
    this.states.push(state);
    return this.states.length - 1;
  }
}

type NegatedEdge = Extract<AST.Element, { kind: 'word' }>;

function parsed(source: string): AST.Pattern {
  try {
    return parsedPattern(source);
  } catch (cause) {
    throw new PatternFault(`cannot be read: ${(cause as Error).message}`);
  }
}

interface Length {
  readonly min: number;
  readonly max: number;
}

function lengthOfAny(alternatives: readonly AST.Alternative[]): Length {
  const lengths = alternatives.map(({ elements }) => {
    const each = elements.map(lengthOf);
    return { min: sum(each.map(({ min }) => min)), max: sum(each.map(({ max }) => max)) };
  });
  return {
    min: Math.min(...lengths.map(({ min }) => min)),
    max: Math.max(...lengths.map(({ max }) => max)),
  };
}

/** Also checks that the pattern needs no lookbehind, lookahead or back-reference. */
function lengthOf(element: AST.Element): Length {
  switch (element.type) {
    case 'Group':
    case 'CapturingGroup':
      if (element.type === 'Group' && element.modifiers !== null) break;
      return lengthOfAny(element.alternatives);
    case 'Quantifier':
      return repeatedLength(element);
    case 'Character': {
      const { length } = foldText(String.fromCodePoint(element.value));
      return { min: length, max: length };
    }
    case 'CharacterSet':
      return { min: 1, max: 1 };
    case 'CharacterClass':
      for (const each of element.elements) checkClassElement(each);
      return { min: 1, max: 1 };
    case 'Assertion':
      if (element.kind === 'word') return { min: 0, max: 0 };
      break;
    default:
  }
  throw new PatternFault(
    `has ${element.raw}, which is not allowed: only characters, classes, groups, |, \\b, \\B, ? and {n,m}`,
  );
}

function repeatedLength({ element, min, max, raw }: AST.Quantifier): Length {
  const once = lengthOf(element);
  if (max > limits.filterRuleLengthMax) {
    const allowed = `write a bound of at most ${limits.filterRuleLengthMax}, as in {0,20}`;
    throw new PatternFault(`has ${raw}, which has no longest match or a very long one: ${allowed}`);
  }
  return { min: once.min * min, max: once.max * max };
}

/** Text is looked at with its letters apart from their marks, so a class of whole ones would never match. */
function checkClassElement(element: AST.CharacterClassElement): void {
  const ends =
    element.type === 'Character'
      ? [element]
      : element.type === 'CharacterClassRange'
        ? [element.min, element.max]
        : [];
  for (const { value, raw } of ends) {
    if (foldText(String.fromCodePoint(value)).length === 1) continue;
    throw new PatternFault(`has ${raw} in a class, which is no single letter: write (a|b) for it`);
  }
}

function tooLong(lengthMax: number): string {
  return `can match more than ${lengthMax} characters`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
