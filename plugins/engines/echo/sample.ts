/**
 * Owns the smallest JSON value that follows a schema, and whether a value follows one.
 * It must never fetch what a schema refers to, nor run a client's regular expression.
 */
import { type Automaton, accepts } from '../../regular/automaton.js';
import { patternAutomaton } from '../../regular/pattern.js';

type Schema = Readonly<Record<string, unknown>>;

/** Deeper parts of a schema that refers to itself are left out. */
const DEPTH_MAX = 12;
const STEPS_MAX = 200_000;

export class Samples {
  #steps = 0;

  constructor(private readonly root: unknown) {}

  value(schema: unknown = this.root, depth = 0): unknown {
    const known = this.#whole(schema, depth);
    const { enum: values, anyOf, oneOf } = known;
    if ('const' in known) return known.const;
    if (Array.isArray(values))
      return values.find((each) => this.fits(each, known, depth)) ?? values[0];
    const alternatives = anyOf ?? oneOf;
    if (Array.isArray(alternatives)) return this.#alternative(alternatives, known, depth);
    return this.#typed(known, depth);
  }

  #alternative(alternatives: readonly unknown[], known: Schema, depth: number): unknown {
    const { anyOf: _, oneOf: __, ...base } = known;
    const made = alternatives.map((each) => this.value({ allOf: [base, each] }, depth + 1));
    return made.find((value) => this.fits(value, known, depth)) ?? made[0];
  }

  #typed(schema: Schema, depth: number): unknown {
    const { type, properties, items } = schema;
    const name = [type].flat()[0];
    if (name === 'object' || (name === undefined && (isSchema(properties) || 'required' in schema)))
      return this.#object(schema, depth);
    if (name === 'array' || (name === undefined && items !== undefined))
      return this.#array(schema, depth);
    if (name === 'number' || name === 'integer') return numberOf(schema);
    if (name === 'boolean') return false;
    if (name === 'null') return null;
    return this.#text(schema);
  }

  #object(schema: Schema, depth: number): Schema {
    const named = isSchema(schema.properties) ? schema.properties : {};
    const { required = [], minProperties = 0, additionalProperties } = schema;
    const names = Array.isArray(required) ? required.map(String) : [];
    for (const name of Object.keys(named)) {
      if (names.length >= Number(minProperties)) break;
      if (!names.includes(name)) names.push(name);
    }
    while (names.length < Number(minProperties) && names.length < DEPTH_MAX)
      names.push(`x${names.length}`);
    if (depth > DEPTH_MAX) return {};
    const entries = names.map((name): [string, unknown] => {
      const own = Object.hasOwn(named, name) ? named[name] : (additionalProperties ?? true);
      return [name, this.value(own, depth + 1)];
    });
    return Object.fromEntries(entries);
  }

  #array({ items = true, prefixItems, minItems = 0 }: Schema, depth: number): unknown[] {
    const listed = Array.isArray(prefixItems) ? prefixItems : [];
    const length =
      depth > DEPTH_MAX ? 0 : Math.min(1_000, Math.max(listed.length, Number(minItems)));
    const of = (at: number) =>
      at < listed.length ? listed[at] : Array.isArray(items) ? items[at] : items;
    return Array.from({ length }, (_, at) => this.value(of(at), depth + 1));
  }

  #text({ pattern, format, minLength = 1, maxLength = Number.POSITIVE_INFINITY }: Schema): string {
    const known = FORMATS[String(format)];
    if (known !== undefined) return known;
    const shortest = typeof pattern === 'string' ? this.#shortest(pattern) : null;
    const length = Math.min(Math.max(1, Number(minLength)), Number(maxLength), 100_000);
    return shortest ?? 'x'.repeat(length);
  }

  #shortest(pattern: string): string | null {
    const automaton = this.#automaton(pattern);
    return automaton === null ? null : shortestText(automaton);
  }

  /** null where no automaton follows it. */
  #automaton(pattern: string): Automaton | null {
    try {
      return patternAutomaton(pattern, (steps) => this.#spend(steps));
    } catch {
      return null;
    }
  }

  #spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps > STEPS_MAX) throw new Error('the schema is too large for a sample');
  }

  // ---------------------------------------------------------------- validity

  fits(value: unknown, schema: unknown = this.root, depth = 0): boolean {
    this.#spend(1);
    if (schema === false) return false;
    if (!isSchema(schema) || depth > 3 * DEPTH_MAX) return true;
    const fits = (each: unknown) => this.fits(value, each, depth + 1);
    const { $ref, allOf, anyOf, oneOf, not, enum: values, type } = schema;
    if (typeof $ref === 'string' && !fits(this.#target($ref))) return false;
    if (Array.isArray(allOf) && !allOf.every(fits)) return false;
    if (Array.isArray(anyOf) && !anyOf.some(fits)) return false;
    if (Array.isArray(oneOf) && oneOf.filter(fits).length !== 1) return false;
    if (not !== undefined && fits(not)) return false;
    if ('const' in schema && !same(value, schema.const)) return false;
    if (Array.isArray(values) && !values.some((each) => same(value, each))) return false;
    if (type !== undefined && ![type].flat().some((each) => isOf(value, each))) return false;
    return this.#fitsKind(value, schema, depth);
  }

  #fitsKind(value: unknown, schema: Schema, depth: number): boolean {
    if (typeof value === 'string') return this.#fitsText(value, schema);
    if (typeof value === 'number') return fitsNumber(value, schema);
    if (Array.isArray(value)) {
      const {
        items = true,
        prefixItems,
        minItems = 0,
        maxItems = Number.POSITIVE_INFINITY,
      } = schema;
      const listed = Array.isArray(prefixItems) ? prefixItems : [];
      const isCounted = value.length >= Number(minItems) && value.length <= Number(maxItems);
      return (
        isCounted && value.every((each, at) => this.fits(each, listed[at] ?? items, depth + 1))
      );
    }
    if (!isSchema(value)) return true;
    const { required, properties, additionalProperties = true } = schema;
    const named = isSchema(properties) ? properties : {};
    if (Array.isArray(required) && !required.every((name) => Object.hasOwn(value, String(name))))
      return false;
    return Object.entries(value).every(([name, each]) =>
      this.fits(each, Object.hasOwn(named, name) ? named[name] : additionalProperties, depth + 1),
    );
  }

  #fitsText(
    text: string,
    { pattern, minLength = 0, maxLength = Number.POSITIVE_INFINITY }: Schema,
  ): boolean {
    const { length } = [...text];
    if (length < Number(minLength) || length > Number(maxLength)) return false;
    const automaton = typeof pattern === 'string' ? this.#automaton(pattern) : null;
    return automaton === null || accepts(automaton, text);
  }

  // -------------------------------------------------------------- references

  /** With what it refers to and joins. */
  #whole(schema: unknown, depth: number): Schema {
    this.#spend(1);
    if (!isSchema(schema) || depth > 3 * DEPTH_MAX) return {};
    const { $ref, allOf, ...own } = schema;
    const parts = [
      ...(typeof $ref === 'string' ? [this.#target($ref)] : []),
      ...(Array.isArray(allOf) ? allOf : []),
    ];
    return parts.map((part) => this.#whole(part, depth + 1)).reduce(joined, own);
  }

  #target(reference: string): unknown {
    let value: unknown = this.root;
    if (!reference.startsWith('#')) return true;
    for (const part of reference.split('/').slice(1)) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return true;
      value = (value as Schema)[key];
    }
    return value;
  }
}

function joined(a: Schema, b: Schema): Schema {
  const all: Record<string, unknown> = { ...b, ...a };
  if (isSchema(a.properties) && isSchema(b.properties))
    all.properties = { ...b.properties, ...a.properties };
  if (Array.isArray(a.required) && Array.isArray(b.required))
    all.required = [...new Set([...a.required, ...b.required])];
  return all;
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function isOf(value: unknown, type: unknown): boolean {
  if (value === null) return type === 'null';
  if (Array.isArray(value)) return type === 'array';
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

function fitsNumber(value: number, schema: Schema): boolean {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (typeof minimum === 'number' && value < minimum) return false;
  if (typeof maximum === 'number' && value > maximum) return false;
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) return false;
  if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum) return false;
  return typeof multipleOf !== 'number' || Number.isInteger(value / multipleOf);
}

/** The nearest to zero. */
function numberOf(schema: Schema): number {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, type } = schema;
  const unit = typeof multipleOf === 'number' && multipleOf > 0 ? multipleOf : 1;
  const isWhole = [type].flat()[0] === 'integer' || unit !== 1;
  const low =
    typeof minimum === 'number' ? minimum : (exclusiveMinimum ?? Number.NEGATIVE_INFINITY);
  const high =
    typeof maximum === 'number' ? maximum : (exclusiveMaximum ?? Number.POSITIVE_INFINITY);
  const near = Math.min(Math.max(0, Number(low)), Number(high));
  const steps = [near, Math.ceil(near / unit) * unit, Math.floor(near / unit) * unit];
  const candidates = steps.flatMap((step) => [step, step + unit, step - unit]);
  const inside = candidates.filter(
    (each) => fitsNumber(each, schema) && (!isWhole || Number.isInteger(each / unit)),
  );
  return inside[0] ?? (Number(low) + Number(high)) / 2;
}

/** By the fewest characters, the first of each set; null where there is no text. */
function shortestText({ states }: Automaton): string | null {
  const texts = new Map<number, string>(states.length > 0 ? [[0, '']] : []);
  for (const [at, text] of texts) {
    if (states[at]?.accepts) return text;
    for (const { set, to } of states[at]?.next ?? []) {
      const visible = set.find(([from]) => from > 0x20 && from < 0x7f) ?? set[0];
      if (!texts.has(to)) texts.set(to, text + String.fromCodePoint(visible?.[0] ?? 0x78));
    }
  }
  return null;
}

const FORMATS: Readonly<Record<string, string>> = {
  date: '1970-01-01',
  time: '00:00:00Z',
  'date-time': '1970-01-01T00:00:00Z',
  duration: 'PT1S',
  email: 'a@example.com',
  hostname: 'example.com',
  ipv4: '127.0.0.1',
  ipv6: '::1',
  uuid: '00000000-0000-4000-8000-000000000000',
  uri: 'https://example.com/',
  url: 'https://example.com/',
};
