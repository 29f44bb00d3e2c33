/**
 * Owns the grammars of strings: lengths, patterns, formats, and texts that are not allowed.
 * It must never write a character that JSON wants escaped.
 */
import {
  type Automaton,
  AutomatonFault,
  complemented,
  intersected,
  lengthsOf,
} from '../../../regular/automaton.js';
import { lengthAutomaton, patternAutomaton, textsAutomaton } from '../../../regular/pattern.js';
import { intersection, LAST_CODE, type Ranges } from '../../../regular/ranges.js';
import { formatPattern } from './formats.js';
import { count } from './keywords.js';
import type { Places } from './place.js';
import type { Schema } from './read.js';
import { codePoint, type Rules } from './rules.js';

/** A longer text is not counted beside a pattern. */
const LENGTH_BESIDE_MAX = 512;

export interface StringRule {
  readonly rule: string;
  readonly width: number;
}

export function stringRule(rules: Rules, schema: Schema, places: Places): StringRule {
  const [min, max] = [
    count(schema.minLength, 0),
    count(schema.maxLength, Number.POSITIVE_INFINITY),
  ];
  if (min > max) throw places.nothing('minLength is above maxLength');
  const automaton = stringAutomaton(schema, places);
  if (automaton === null) return { rule: lengthRule(rules, { min, max }, places), width: 1 };
  const { body, width } = automatonRule(rules, automaton);
  return { rule: rules.rule(`"\\"" ${body} "\\""`), width };
}

function lengthRule(rules: Rules, { min, max }: { min: number; max: number }, places: Places) {
  if (min === 0 && max === Number.POSITIVE_INFINITY) return 'string';
  const most = places.countable(max, 'maxLength');
  const chars = rules.repeat(
    'char',
    places.countable(min, 'minLength') ?? 0,
    most ?? Number.POSITIVE_INFINITY,
  );
  return rules.rule(`"\\"" ${chars} "\\""`);
}

/** null where lengths alone decide. */
export function stringAutomaton(schema: Schema, places: Places): Automaton | null {
  const spend = (steps: number) => places.cost.spend(steps);
  const parts: Automaton[] = [];
  const add = (keyword: string, make: () => Automaton) => {
    const made = attempt(make, keyword, places);
    if (made !== null && !isEverything(made)) parts.push(made);
  };
  for (const pattern of [schema.pattern ?? []].flat())
    add('pattern', () => patternAutomaton(String(pattern), spend));
  const format = schema.format === undefined ? null : formatPattern(String(schema.format));
  // Beside a pattern a name of one's own only says what the pattern is.
  if (format === undefined && schema.pattern === undefined)
    places.leave('format', `${String(schema.format)} is not known`);
  else if (format !== null && format !== undefined)
    add('format', () => patternAutomaton(format, spend));
  for (const { texts, pattern } of (schema[NOT_TEXTS] as NotText[] | undefined) ?? [])
    add('not', () =>
      complemented(
        texts ? textsAutomaton(texts, spend) : patternAutomaton(pattern ?? '', spend),
        spend,
      ),
    );
  const [first, ...others] = parts;
  if (first === undefined) return null;
  const all = others.reduce<Automaton>(
    (sum, each) => attempt(() => intersected(sum, each, spend), 'pattern', places) ?? sum,
    first,
  );
  const whole = withLengths(all, schema, places);
  if (whole.states.length === 0) throw places.nothing('no text fits');
  return whole;
}

/** What a text must not be: an internal keyword. */
export const NOT_TEXTS = ' not';

export interface NotText {
  readonly texts?: readonly string[];
  readonly pattern?: string;
}

function attempt(make: () => Automaton, keyword: string, places: Places): Automaton | null {
  try {
    return make();
  } catch (cause) {
    if (!(cause instanceof AutomatonFault)) throw cause;
    places.leave(keyword, cause.message);
    return null;
  }
}

function isEverything({ states }: Automaton): boolean {
  const [only] = states;
  const covered = only?.next.reduce((sum, { set }) => sum + sizeOf(set), 0) ?? 0;
  return states.length === 1 && only?.accepts === true && covered >= LAST_CODE - 0x8_10;
}

function sizeOf(set: Ranges): number {
  return set.reduce((sum, [from, to]) => sum + to - from + 1, 0);
}

function withLengths(automaton: Automaton, schema: Schema, places: Places): Automaton {
  const { min, max } = lengthsOf(automaton);
  const low = count(schema.minLength, 0);
  let high = count(schema.maxLength, Number.POSITIVE_INFINITY);
  if (high > LENGTH_BESIDE_MAX && max > high) {
    places.leave('maxLength', `is above ${LENGTH_BESIDE_MAX} beside a pattern`);
    high = Number.POSITIVE_INFINITY;
  }
  if (low <= min && high >= max) return automaton;
  const spend = (steps: number) => places.cost.spend(steps);
  const least = low <= min ? 0 : low;
  const most = high >= max ? Number.POSITIVE_INFINITY : high;
  const made = attempt(
    () => intersected(automaton, lengthAutomaton(least, most, spend), spend),
    most === Number.POSITIVE_INFINITY ? 'minLength' : 'maxLength',
    places,
  );
  return made ?? automaton;
}

/** What stands between the quotes. */
export function automatonRule(
  rules: Rules,
  automaton: Automaton,
): { readonly body: string; readonly width: number } {
  const writer = new StateWriter(rules, automaton);
  return { body: writer.state(0), width: writer.width };
}

class StateWriter {
  width = 1;
  readonly #names = new Map<number, string>();
  readonly #sources: number[];

  constructor(
    private readonly rules: Rules,
    private readonly automaton: Automaton,
  ) {
    this.#sources = automaton.states.map(() => 0);
    for (const { next } of automaton.states)
      for (const { to } of next) this.#sources[to] = (this.#sources[to] ?? 0) + 1;
  }

  /** A state that is reached in one way is written where it is reached. */
  state(at: number, depth = 0): string {
    const known = this.#names.get(at);
    if (known !== undefined) return known;
    if (at !== 0 && depth < INLINE_MAX && this.#sources[at] === 1) return this.#body(at, depth);
    const name = this.rules.reserve();
    this.#names.set(at, name);
    this.rules.define(name, this.#body(at, 0));
    return name;
  }

  #body(at: number, depth: number): string {
    const { accepts: ends, next } = this.automaton.states[at] ?? { accepts: true, next: [] };
    const parts = next.flatMap(({ set, to }) => {
      this.rules.cost.spend(set.length);
      const characters = jsonCharacters(set);
      if (characters === null) return [];
      const rest = this.state(to, depth + 1);
      return [rest === '""' ? characters : `${characters} ${rest}`];
    });
    if (ends) parts.push('""');
    this.width = Math.max(this.width, parts.length);
    return parts.length === 1 ? (parts[0] ?? '') : `( ${parts.join(' | ')} )`;
  }
}

const INLINE_MAX = 64;

/** Characters that a JSON string holds as they are. */
const PLAIN: Ranges = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, LAST_CODE],
];
const ESCAPES: readonly (readonly [number, string])[] = [
  [0x22, '"'],
  [0x5c, '\\'],
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
];

/** null where JSON has no short form for any of them: control characters. */
function jsonCharacters(set: Ranges): string | null {
  const plain = intersection(set, PLAIN);
  const escapes = ESCAPES.filter(([code]) => intersection(set, [[code, code]]).length > 0);
  const parts: string[] = [];
  if (plain.length > 0) parts.push(`[${plain.map(classPart).join('')}]`);
  if (escapes.length > 0)
    parts.push(`"\\\\" [${escapes.map(([, letter]) => codePoint(letter)).join('')}]`);
  if (parts.length === 0) return null;
  return parts.length === 1 ? (parts[0] ?? null) : `( ${parts.join(' | ')} )`;
}

function classPart([from, to]: readonly [number, number]): string {
  const [first, last] = [from, to].map((code) => codePoint(String.fromCodePoint(code)));
  return from === to ? `${first}` : `${first}-${last}`;
}
