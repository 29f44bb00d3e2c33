/**
 * Owns what single keywords say: types, bounds, counts, and which keywords belong to which type.
 * It must never write a grammar.
 */

import { SchemaError } from './cost.js';
import type { Schema } from './merge.js';
import type { Property } from './objects.js';

export type JsonType = 'object' | 'array' | 'string' | 'number' | 'integer' | 'boolean' | 'null';

/** Keywords that say something about one type only. */
const KEYWORDS: Readonly<Record<JsonType, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  boolean: [],
  null: [],
};
const ALL_TYPES = Object.keys(KEYWORDS).filter((type) => type !== 'integer') as JsonType[];
export const KNOWN = new Set(['type', ...Object.values(KEYWORDS).flat()]);

export function propertyCounts(
  schema: Schema,
  properties: readonly Property[],
  open: boolean,
  where: string,
): { min: number; max: number } {
  const min = count(schema.minProperties, 0);
  const max = count(schema.maxProperties, Infinity);
  if (properties.length === 0 && open) return { min, max };
  const needed = properties.filter((property) => property.required).length;
  if (min > needed) throw new SchemaError(`${where}: minProperties above the required ones`);
  if (max < properties.length || (open && max < Infinity))
    throw new SchemaError(`${where}: maxProperties below the properties there are`);
  return { min, max };
}

export function typesOf(schema: Schema, where: string): JsonType[] {
  const { type } = schema;
  if (type !== undefined) {
    const types = [type].flat();
    const unknown = types.find((each) => !Object.hasOwn(KEYWORDS, String(each)));
    if (unknown !== undefined)
      throw new SchemaError(`${where}: type ${String(unknown)} is unknown`);
    return types as JsonType[];
  }
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

export function refuse(keyword: string | undefined, where: string): void {
  if (keyword !== undefined) throw new SchemaError(`${where}: ${keyword} is not supported`);
}
