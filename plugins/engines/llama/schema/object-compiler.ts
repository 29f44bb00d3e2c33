/**
 * Owns the way from the keywords of objects to a rule: listed names, names by pattern, further names, counts.
 * It must never let a name that is put out break a keyword about names.
 */
import {
  type Automaton,
  AutomatonFault,
  accepts,
  complemented,
  intersected,
} from '../../../regular/automaton.js';
import { patternAutomaton, textsAutomaton } from '../../../regular/pattern.js';
import { type Compiled, type CompilerParts, widest } from './compiled.js';
import { NothingFits } from './cost.js';
import { count } from './keywords.js';
import { type Further, namesAtOnce, objectRule, otherName, type Property } from './objects.js';
import { escaped } from './place.js';
import { isSchema, type Schema } from './read.js';
import { automatonRule, stringAutomaton } from './strings.js';

export class ObjectCompiler {
  constructor(private readonly parts: CompilerParts) {}

  compiled(schema: Schema): Compiled {
    const { places } = this.parts;
    const listed = isSchema(schema.properties) ? schema.properties : {};
    const needed = Array.isArray(schema.required) ? schema.required.map(String) : [];
    const patterns = this.#patterns(schema);
    const names = new Set([...Object.keys(listed), ...needed]);
    const values: Compiled[] = [];
    const properties: Property[] = [];
    for (const name of names) {
      const value = this.#property(schema, name, patterns, needed.includes(name));
      if (value === null) continue;
      values.push(value);
      properties.push({ name, value: value.rule, required: needed.includes(name) });
    }
    const further = this.#further(schema, [...names], patterns);
    if (further !== null) values.push(...further.values);
    const { min, max } = this.#propertyCounts(schema, properties, further !== null);
    places.cost.place = places.name();
    const rule = objectRule(this.parts.rules, properties, further, { min, max });
    const { ways, width } = widest(values);
    const atOnce = namesAtOnce(properties, further !== null) + (further?.values.length ?? 1) - 1;
    return { rule, ways, width: Math.max(width, atOnce, further?.width ?? 1), first: 1 };
  }

  #propertyCounts(schema: Schema, properties: readonly Property[], isOpen: boolean) {
    const { places } = this.parts;
    const needed = properties.filter(({ required }) => required).length;
    let min = places.countable(count(schema.minProperties, 0), 'minProperties') ?? 0;
    let max = places.countable(count(schema.maxProperties, Infinity), 'maxProperties') ?? Infinity;
    const most = isOpen ? Infinity : properties.length;
    if (min > max || max < needed || min > most)
      throw places.nothing('minProperties and maxProperties do not fit the properties');
    const isCounted = properties.length > 0 && (min > needed || max < most);
    if (isCounted && properties.length * Math.min(max, properties.length) > COUNTED_MAX) {
      places.leave(
        'minProperties' in schema ? 'minProperties' : 'maxProperties',
        'is not counted for so many',
      );
      [min, max] = [0, Infinity];
    }
    return { min, max };
  }

  /** null: it may not be there. */
  #property(
    schema: Schema,
    name: string,
    patterns: readonly NamePattern[],
    isNeeded: boolean,
  ): Compiled | null {
    const { places } = this.parts;
    const listed = isSchema(schema.properties) ? schema.properties : {};
    const parts = patterns.filter(({ names }) => accepts(names, name)).map(({ value }) => value);
    if (Object.hasOwn(listed, name)) parts.unshift(listed[name]);
    if (parts.length === 0) parts.push(schema.additionalProperties ?? true);
    const value = parts.length === 1 ? parts[0] : { allOf: parts };
    try {
      if (!this.#mayBeNamed(schema, name))
        throw places.nothing(`${name} is no name for a property`);
      return this.parts.compile(value, `${places.where}/properties/${escaped(name)}`);
    } catch (cause) {
      if (cause instanceof NothingFits && !isNeeded) return null;
      throw cause;
    }
  }

  #mayBeNamed({ propertyNames }: Schema, name: string): boolean {
    if (propertyNames === undefined) return true;
    const names = this.#names(propertyNames);
    return names === null || accepts(names, name);
  }

  /** The texts that a schema of names allows; null for any. */
  #names(schema: unknown): Automaton | null {
    if (schema === false) return { states: [] };
    const looked = this.parts.look(schema);
    if (looked === null || Object.keys(looked).some((key) => !NAME_KEYWORDS.has(key))) {
      this.parts.places.leave('propertyNames', 'is more than a grammar of names can hold');
      return null;
    }
    if (Array.isArray(looked.enum)) return this.#texts(looked.enum.map(String));
    const { minLength, maxLength } = looked;
    const needsAny = minLength !== undefined || maxLength !== undefined;
    // A pattern that everything fits makes the lengths count.
    const pattern = looked.pattern ?? (needsAny ? '^[^]*$' : undefined);
    if (pattern === undefined && looked.format === undefined) return null;
    const plain =
      pattern === '^[^]*$'
        ? { ...looked, pattern: `^[^]{${count(minLength, 0)},${maxLength ?? ''}}$` }
        : looked;
    return stringAutomaton(plain, this.parts.places);
  }

  /** null where there are too many. */
  #texts(texts: readonly string[]): Automaton | null {
    try {
      return textsAutomaton(texts, (steps) => this.parts.rules.cost.spend(steps));
    } catch (cause) {
      if (!(cause instanceof AutomatonFault)) throw cause;
      this.parts.places.leave('propertyNames', cause.message);
      return null;
    }
  }

  #patterns({ patternProperties }: Schema): NamePattern[] {
    const spend = (steps: number) => this.parts.rules.cost.spend(steps);
    const patterns: NamePattern[] = [];
    for (const [pattern, value] of Object.entries(
      isSchema(patternProperties) ? patternProperties : {},
    )) {
      try {
        patterns.push({ pattern, names: patternAutomaton(pattern, spend), value });
      } catch (cause) {
        if (!(cause instanceof AutomatonFault)) throw cause;
        this.parts.places.leave('patternProperties', cause.message);
      }
    }
    return patterns;
  }

  /** Names that are not listed, and their values; null where there are none. */
  #further(
    schema: Schema,
    listed: readonly string[],
    patterns: readonly NamePattern[],
  ): (Further & { readonly values: Compiled[]; readonly width: number }) | null {
    const { additionalProperties, patternProperties, propertyNames } = schema;
    // Unsaid, further properties are allowed but not needed: a model asked for three fields should give three.
    const isMap = listed.length === 0 && patternProperties === undefined;
    const open = additionalProperties ?? isMap;
    const among = propertyNames === undefined ? null : this.#names(propertyNames);
    const { where } = this.parts.places;
    const kinds = patterns.map(({ pattern, names, value }, i) => ({
      names: this.#without(
        names,
        [...patterns.slice(0, i), ...patterns.slice(i + 1)],
        listed,
        among,
      ),
      value,
      where: `${where}/patternProperties/${escaped(pattern)}`,
    }));
    const pairs: string[] = [];
    const values: Compiled[] = [];
    let width = 1;
    const add = (name: string, value: unknown, at: string) => {
      try {
        const compiled = this.parts.compile(value, at);
        values.push(compiled);
        pairs.push(`${name} ":" ws ${compiled.rule}`);
      } catch (cause) {
        if (!(cause instanceof NothingFits)) throw cause;
      }
    };
    const named = (names: Automaton): string | null => {
      if (names.states.length === 0) return null;
      const made = automatonRule(this.parts.rules, names);
      width = Math.max(width, made.width);
      return this.parts.rules.rule(`"\\"" ${made.body} "\\""`);
    };
    for (const kind of kinds) {
      const name = named(kind.names);
      if (name !== null) add(name, kind.value, kind.where);
    }
    if (open !== false) {
      const isPlain = patterns.length === 0 && among === null;
      const rest = isPlain ? null : this.#without(null, patterns, listed, among);
      const name = rest === null ? otherName(this.parts.rules, listed) : named(rest);
      if (name !== null) add(name, open, `${where}/additionalProperties`);
    }
    if (pairs.length === 0) return null;
    return { pair: this.parts.rules.either(pairs), values, width };
  }

  /** Names but those that fit other patterns, that are listed, or that may not be. */
  #without(
    names: Automaton | null,
    others: readonly NamePattern[],
    listed: readonly string[],
    among: Automaton | null,
  ): Automaton {
    try {
      return this.#difference(names, others, listed, among);
    } catch (cause) {
      if (!(cause instanceof AutomatonFault)) throw cause;
      this.parts.places.leave('additionalProperties', `${cause.message} for its names`);
      return { states: [] };
    }
  }

  #difference(
    names: Automaton | null,
    others: readonly NamePattern[],
    listed: readonly string[],
    among: Automaton | null,
  ): Automaton {
    const spend = (steps: number) => this.parts.rules.cost.spend(steps);
    const not = (each: Automaton) => complemented(each, spend);
    const parts = [
      ...(names === null ? [] : [names]),
      ...(among === null ? [] : [among]),
      ...others.map((other) => not(other.names)),
      ...(listed.length === 0 ? [] : [not(textsAutomaton(listed, spend))]),
    ];
    const [first = not({ states: [] }), ...rest] = parts;
    return rest.reduce((sum, each) => intersected(sum, each, spend), first);
  }
}

interface NamePattern {
  readonly pattern: string;
  readonly names: Automaton;
  readonly value: unknown;
}

/** Rules of properties times numbers of properties. */
const COUNTED_MAX = 4_096;
const NAME_KEYWORDS = new Set(['type', 'enum', 'pattern', 'format', 'minLength', 'maxLength']);
