/**
 * Owns the way from a regular expression to an automaton of the texts in which it is found.
 * It must never guess: what no automaton can do (back-references, edges of words) is a `PatternFault`.
 */
import { type AST, parsedPattern } from '../regexp.js';
import {
  type Automaton,
  AutomatonFault,
  complemented,
  intersected,
  type Spend,
} from './automaton.js';
import { determinised, Nfa } from './nfa.js';
import { ALL, complement, type Ranges, single, union } from './ranges.js';

/** The longest count that is written out. */
const COUNT_MAX = 1_024;

/** @param spend takes each step, and throws when there were too many. @throws AutomatonFault */
export function patternAutomaton(source: string, spend: Spend): Automaton {
  return new PatternReader(spend).found(treeOf(source));
}

/** The texts of a list, and no others. */
export function textsAutomaton(texts: readonly string[], spend: Spend): Automaton {
  const nfa = new Nfa(spend);
  for (const text of texts) {
    let at = nfa.start;
    for (const character of text) at = nfa.step(at, single(character.codePointAt(0) ?? 0));
    nfa.join(at, nfa.end);
  }
  return determinised(nfa, spend);
}

/** Texts with so many characters. */
export function lengthAutomaton(min: number, max: number, spend: Spend): Automaton {
  const nfa = new Nfa(spend);
  let at = nfa.start;
  for (let i = 0; i < min; i++) at = nfa.step(at, ALL);
  if (max === Number.POSITIVE_INFINITY) nfa.edge(at, ALL, at);
  nfa.join(at, nfa.end);
  for (let i = min; i < max && max !== Number.POSITIVE_INFINITY; i++) {
    at = nfa.step(at, ALL);
    nfa.join(at, nfa.end);
  }
  return determinised(nfa, spend);
}

function treeOf(source: string): AST.Pattern {
  for (const unicode of [true, false]) {
    try {
      return parsedPattern(source, unicode);
    } catch {
      // Some escapes are allowed only without the mode for whole characters.
    }
  }
  throw new AutomatonFault('is no regular expression of JavaScript');
}

class PatternReader {
  /** A set stands for more than its ranges say, so that its complement would be wrong. */
  #isNarrowed = false;

  constructor(private readonly spend: Spend) {}

  found({ alternatives }: AST.Pattern): Automaton {
    const [only] = alternatives;
    const elements = only?.elements ?? [];
    const at = elements[0] && isEdge(elements[0], 'start') ? 1 : 0;
    const looks = alternatives.length === 1 && at === 1 ? leadingLooks(elements.slice(at)) : [];
    if (looks.length === 0) return this.#searched(alternatives);
    const rest = elements.slice(at + looks.length);
    const main = this.#anchored([rest], true);
    return looks.reduce((all, look) => intersected(all, this.#look(look), this.spend), main);
  }

  /** What stands ahead, from the beginning of the text. */
  #look({ alternatives, negate }: AST.LookaheadAssertion): Automaton {
    const ahead = this.#anchored(
      alternatives.map(({ elements }) => elements),
      true,
    );
    if (!negate) return ahead;
    if (this.#isNarrowed) throw new AutomatonFault('has a property in a negative lookahead');
    return complemented(ahead, this.spend);
  }

  #searched(alternatives: readonly AST.Alternative[]): Automaton {
    return this.#anchored(
      alternatives.map(({ elements }) => elements),
      false,
    );
  }

  /** @param fromStart whether each begins where the text does. */
  #anchored(branches: readonly (readonly AST.Element[])[], fromStart: boolean): Automaton {
    const nfa = new Nfa(this.spend);
    for (const elements of branches) this.#branch(nfa, elements, fromStart, false);
    return determinised(nfa, this.spend);
  }

  /** One alternative at the top, with the edges of the text that it names. */
  #branch(nfa: Nfa, all: readonly AST.Element[], fromStart: boolean, toEnd: boolean): void {
    const first = all[0];
    const last = all.at(-1);
    const starts = first !== undefined && isEdge(first, 'start');
    if (starts) {
      this.#branch(nfa, all.slice(1), true, toEnd);
      return;
    }
    if (last !== undefined && isEdge(last, 'end')) {
      this.#branch(nfa, all.slice(0, -1), fromStart, true);
      return;
    }
    // Edges may stand inside a group that is all there is.
    if (all.length === 1 && first !== undefined && isGroup(first)) {
      for (const { elements } of first.alternatives) this.#branch(nfa, elements, fromStart, toEnd);
      return;
    }
    const from = nfa.state();
    const to = nfa.state();
    nfa.join(nfa.start, from);
    if (!fromStart) nfa.edge(from, ALL, from);
    this.#sequence(nfa, all, from, to);
    if (!toEnd) nfa.edge(to, ALL, to);
    nfa.join(to, nfa.end);
  }

  #sequence(nfa: Nfa, elements: readonly AST.Element[], from: number, to: number): void {
    let at = from;
    for (const element of elements) {
      const next = nfa.state();
      this.#element(nfa, element, at, next);
      at = next;
    }
    nfa.join(at, to);
  }

  #element(nfa: Nfa, element: AST.Element, from: number, to: number): void {
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup':
        if (element.type === 'Group' && element.modifiers !== null) break;
        for (const { elements } of element.alternatives) this.#sequence(nfa, elements, from, to);
        return;
      case 'Quantifier':
        this.#repeated(nfa, element, from, to);
        return;
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass':
        nfa.edge(from, this.#set(element), to);
        return;
      default:
    }
    throw new AutomatonFault(`has ${element.raw}, which no grammar can follow`);
  }

  #repeated(nfa: Nfa, { element, min, max }: AST.Quantifier, from: number, to: number): void {
    const finite = max === Number.POSITIVE_INFINITY ? min : max;
    if (finite > COUNT_MAX) throw new AutomatonFault(`counts to more than ${COUNT_MAX}`);
    let at = from;
    for (let i = 0; i < min; i++) at = this.#once(nfa, element, at);
    if (max === Number.POSITIVE_INFINITY) {
      const loop = nfa.state();
      nfa.join(at, loop);
      this.#element(nfa, element, loop, loop);
      at = loop;
    }
    for (let i = min; i < finite; i++) {
      nfa.join(at, to);
      at = this.#once(nfa, element, at);
    }
    nfa.join(at, to);
  }

  #once(nfa: Nfa, element: AST.Element, from: number): number {
    const next = nfa.state();
    this.#element(nfa, element, from, next);
    return next;
  }

  #set(element: AST.Character | AST.CharacterSet | AST.CharacterClass): Ranges {
    if (element.type === 'Character') return single(element.value);
    if (element.type === 'CharacterSet') return this.#named(element);
    const parts = element.elements.map((each) => this.#part(each));
    const all = union(...parts);
    return element.negate ? complement(all) : all;
  }

  #part(element: AST.CharacterClass['elements'][number]): Ranges {
    switch (element.type) {
      case 'Character':
        return single(element.value);
      case 'CharacterClassRange':
        return [[element.min.value, element.max.value]];
      case 'CharacterSet':
        return this.#named(element);
      default:
        throw new AutomatonFault(`has ${element.raw}`);
    }
  }

  #named(set: AST.CharacterSet): Ranges {
    if (set.kind === 'any') return complement(LINE_ENDS);
    if (set.kind === 'property') {
      this.#isNarrowed = true;
      return propertyRanges(set.raw, this.spend);
    }
    const plain = NAMED[set.kind];
    return set.negate ? complement(plain) : plain;
  }
}

function isEdge(element: AST.Element, kind: 'start' | 'end'): boolean {
  return element.type === 'Assertion' && element.kind === kind;
}

function isGroup(element: AST.Element): element is AST.Group | AST.CapturingGroup {
  return element.type === 'CapturingGroup' || (element.type === 'Group' && !element.modifiers);
}

function leadingLooks(elements: readonly AST.Element[]): AST.LookaheadAssertion[] {
  const looks: AST.LookaheadAssertion[] = [];
  for (const element of elements) {
    if (element.type !== 'Assertion' || element.kind !== 'lookahead') break;
    looks.push(element);
  }
  return looks;
}

const LINE_ENDS: Ranges = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const NAMED: Readonly<Record<'digit' | 'word' | 'space', Ranges>> = {
  digit: [[0x30, 0x39]],
  word: [
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ],
  space: [
    [0x09, 0x0d],
    [0x20, 0x20],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ],
};

const PROPERTY_CODES = 0x1_00_00;
const properties = new Map<string, Ranges>();

/** Of the first 65 536 code points, the longest ranges: a class of hundreds is slow to follow. */
function propertyRanges(raw: string, spend: Spend): Ranges {
  const known = properties.get(raw);
  if (known !== undefined) return known;
  spend(1_000);
  const form = new RegExp(`^${raw}$`, 'u');
  const ranges: [number, number][] = [];
  for (let code = 0; code < PROPERTY_CODES; code++) {
    if ((code >= 0xd800 && code < 0xe000) || !form.test(String.fromCodePoint(code))) continue;
    const last = ranges.at(-1);
    if (last?.[1] === code - 1) last[1] = code;
    else ranges.push([code, code]);
  }
  const longest = [...ranges].sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, RANGES_MAX);
  const kept = union(
    longest,
    ranges.filter(([from]) => from < 0x80),
  );
  if (properties.size < PROPERTIES_MAX) properties.set(raw, kept);
  return kept;
}

const RANGES_MAX = 48;
const PROPERTIES_MAX = 64;
