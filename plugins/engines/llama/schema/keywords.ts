/**
 * Owns what single keywords say: types, bounds, counts, and which keywords belong to which type.
 * It must never write a grammar.
 */
import { type JsonType, type Schema, TYPES } from './read.js';

/** Keywords that say something about one type only. */
const KEYWORDS: Readonly<Record<JsonType, readonly string[]>> = {
  object: [
    'properties',
    'required',
    'additionalProperties',
    'patternProperties',
    'propertyNames',
    'minProperties',
    'maxProperties',
  ],
  array: ['items', 'prefixItems', 'contains', 'minItems', 'maxItems', 'uniqueItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  boolean: [],
  null: [],
};
const ALL_TYPES = TYPES.filter((type) => type !== 'integer');

export function typesOf(schema: Schema): readonly JsonType[] {
  if (Array.isArray(schema.type)) return schema.type as JsonType[];
  // Without a type the keywords tell which one is meant; to leave the other types out is right in any case.
  const meant = ALL_TYPES.filter((each) => KEYWORDS[each].some((key) => key in schema));
  return meant.length > 0 ? meant : ALL_TYPES;
}

export function bounds(schema: Schema) {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  const low = pick(minimum, exclusiveMinimum, Math.max);
  const high = pick(maximum, exclusiveMaximum, Math.min);
  return {
    minimum: low,
    maximum: high,
    aboveMinimum: low !== null && low === exclusiveMinimum,
    belowMaximum: high !== null && high === exclusiveMaximum,
  };
}

function pick(a: unknown, b: unknown, choose: (a: number, b: number) => number): number | null {
  if (typeof a === 'number' && typeof b === 'number') return choose(a, b);
  if (typeof a === 'number') return a;
  return typeof b === 'number' ? b : null;
}

export function count(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value >= 0 ? Math.floor(value) : otherwise;
}

/** Each once, in an order that brings those with a common beginning together. */
export function sortedTexts(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort((a, b) => (a < b ? -1 : 1));
}

/** Whether a text of one list begins a text of the other. Both are sorted. */
export function overlap(a: readonly string[], b: readonly string[]): boolean {
  return a.some((text) => beginsOne(text, b)) || b.some((text) => beginsOne(text, a));
}

/** What a text begins comes right after it in a sorted list. */
function beginsOne(text: string, sorted: readonly string[]): boolean {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? '') < text) low = middle + 1;
    else high = middle;
  }
  return sorted[low]?.startsWith(text) ?? false;
}

export function hasType(value: unknown, type: unknown): boolean {
  if (value === null) return type === 'null';
  if (Array.isArray(value)) return type === 'array';
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}
