/**
 * Owns how several schemas that must all hold become one: `allOf`, siblings of `$ref` and of `anyOf`.
 * It must never drop a keyword without a word: what cannot be joined is left to the model by name.
 */
import { isDeepStrictEqual } from 'node:util';
import { hasType } from './keywords.js';
import type { Places } from './place.js';
import { isSchema, readSchema, type Schema } from './read.js';

/** Alternatives of two lists that are multiplied. */
const PRODUCT_MAX = 64;

/** @param a as `readSchema` gives it. */
export function merge(a: Schema, b: Schema, places: Places): Schema {
  const [left, right] = [a, readSchema(b, places)];
  const merged: Record<string, unknown> = { ...left };
  for (const [key, value] of Object.entries(right)) {
    places.cost.spend(size(merged[key]) + size(value));
    if (key in merged) join(merged, key, value, places);
    else merged[key] = value;
  }
  if (isSchema(left.properties) || isSchema(right.properties)) {
    merged.properties = joinProperties(left, right);
  }
  return merged;
}

/** Entries to look at. */
function size(value: unknown): number {
  return typeof value === 'object' && value !== null ? 1 + Object.keys(value).length : 1;
}

function join(merged: Record<string, unknown>, key: string, b: unknown, places: Places): void {
  const a = merged[key];
  if (isDeepStrictEqual(a, b)) return;
  const how = JOINS[key];
  const joined = how?.(a, b, places);
  if (joined === undefined) {
    places.leave(key, 'is given twice, with different values');
    return;
  }
  if (joined === NOTHING) throw places.nothing(`${key} is given twice, and nothing fits both`);
  merged[key] = joined;
}

const NOTHING = Symbol('nothing');

/** undefined: cannot be joined. */
type Join = (a: unknown, b: unknown, places: Places) => unknown;

const highest: Join = (a, b) => Math.max(Number(a), Number(b));
const lowest: Join = (a, b) => Math.min(Number(a), Number(b));
const both: Join = (a, b) => ({ allOf: [a, b] });
const together: Join = (a, b) => [...new Set([...(a as unknown[]), ...(b as unknown[])])];
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);

const JOINS: Readonly<Record<string, Join>> = {
  minimum: highest,
  exclusiveMinimum: highest,
  minLength: highest,
  minItems: highest,
  minProperties: highest,
  maximum: lowest,
  exclusiveMaximum: lowest,
  maxLength: lowest,
  maxItems: lowest,
  maxProperties: lowest,
  required: together,
  allOf: together,
  uniqueItems: (a, b) => a === true || b === true,
  pattern: (a, b) => [...list(a), ...list(b)],
  not: (a, b) => ({ anyOf: [a, b] }),
  items: both,
  propertyNames: both,
  properties: () => ({}),
  additionalProperties: (a, b) => (a === false || b === false ? false : { allOf: [a, b] }),
  patternProperties: (a, b) => joinNamed(a as Schema, b as Schema),
  dependentSchemas: (a, b) => joinNamed(a as Schema, b as Schema),
  dependentRequired: (a, b) => {
    const joined: Record<string, unknown> = { ...(a as Schema) };
    for (const [name, needed] of Object.entries(b as Schema))
      joined[name] = [...list(joined[name] ?? []), ...list(needed)];
    return joined;
  },
  prefixItems: (a, b) => {
    const [left, right] = [list(a), list(b)];
    const longer = left.length > right.length ? left : right;
    return longer.map((_, i) =>
      i in left && i in right ? { allOf: [left[i], right[i]] } : longer[i],
    );
  },
  type: (a, b) => {
    const [left, right] = [list(a), list(b)];
    const common = left.filter((type) => right.includes(type));
    const isWhole = (types: unknown[]) => types.includes('integer');
    const whole =
      !common.includes('integer') &&
      !common.includes('number') &&
      ((isWhole(left) && right.includes('number')) || (isWhole(right) && left.includes('number')));
    return common.length > 0 || whole ? [...common, ...(whole ? ['integer'] : [])] : NOTHING;
  },
  enum: (a, b, places) => {
    const [left, right] = [list(a), list(b)];
    places.cost.spend(left.length * right.length);
    const common = left.filter((value) => right.some((other) => isDeepStrictEqual(value, other)));
    return common.length > 0 ? common : NOTHING;
  },
  anyOf: product,
  oneOf: product,
};

/** Each of one list together with each of the other. */
function product(a: unknown, b: unknown, places: Places): unknown {
  const [left, right] = [list(a), list(b)];
  places.cost.spend(left.length * right.length);
  if (left.length * right.length > PRODUCT_MAX) return undefined;
  return left.flatMap((one) => right.map((other) => ({ allOf: [one, other] })));
}

function joinNamed(a: Schema, b: Schema): Schema {
  const joined: Record<string, unknown> = { ...a };
  for (const [name, schema] of Object.entries(b))
    joined[name] = Object.hasOwn(a, name) ? { allOf: [a[name], schema] } : schema;
  return joined;
}

/** A name that only one of them lists is a further name for the other. */
function joinProperties(a: Schema, b: Schema): Schema {
  const [left, right] = [properties(a), properties(b)];
  const joined: [string, unknown][] = [];
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const parts = [a, b].map((schema) => ofName(schema, name)).filter((part) => part !== undefined);
    joined.push([
      name,
      parts.includes(false) ? false : parts.length === 1 ? parts[0] : { allOf: parts },
    ]);
  }
  return Object.fromEntries(joined);
}

function properties({ properties: named }: Schema): Schema {
  return isSchema(named) ? named : {};
}

function ofName(schema: Schema, name: string): unknown {
  const named = properties(schema);
  if (Object.hasOwn(named, name)) return named[name];
  // Patterns may take the name too: the compiler of objects looks at them.
  return isSchema(schema.patternProperties) ? undefined : schema.additionalProperties;
}

/** Whether a value fits what is said of single values beside an `enum`; null where that cannot be told here. */
export function fitsBeside(value: unknown, schema: Schema): boolean | null {
  for (const [key, bound] of Object.entries(schema)) {
    const check = BESIDE[key];
    if (check === undefined) return null;
    if (!check(value, bound)) return false;
  }
  return true;
}

const number =
  (fits: (value: number, bound: number) => boolean) => (value: unknown, bound: unknown) =>
    typeof value !== 'number' || fits(value, Number(bound));
const length =
  (fits: (length: number, bound: number) => boolean) => (value: unknown, bound: unknown) =>
    typeof value !== 'string' || fits([...value].length, Number(bound));

const BESIDE: Readonly<Record<string, (value: unknown, bound: unknown) => boolean>> = {
  enum: () => true,
  type: (value, types) => list(types).some((type) => hasType(value, type)),
  minimum: number((value, bound) => value >= bound),
  maximum: number((value, bound) => value <= bound),
  exclusiveMinimum: number((value, bound) => value > bound),
  exclusiveMaximum: number((value, bound) => value < bound),
  minLength: length((value, bound) => value >= bound),
  maxLength: length((value, bound) => value <= bound),
  required: (value, names) =>
    !isSchema(value) || list(names).every((name) => Object.hasOwn(value, String(name))),
};
