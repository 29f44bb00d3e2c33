/**
 * Owns how several schemas that must all hold become one: `allOf`, siblings of `$ref` and of `anyOf`.
 * It must never drop a keyword: what cannot be joined is refused by name.
 */
import { isDeepStrictEqual } from 'node:util';
import { type Cost, SchemaError } from './cost.js';

export type Schema = Readonly<Record<string, unknown>>;

/** They say something to people, or to tools, and nothing about which JSON is right. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$comment',
  '$defs',
  '$anchor',
  'definitions',
  'title',
  'description',
  'default',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'strict',
  'contentMediaType',
  'contentEncoding',
]);

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Only what decides. */
export function keywords(schema: Schema): Schema {
  return Object.fromEntries(
    Object.entries(schema).filter(([key, value]) => !ANNOTATIONS.has(key) && value !== undefined),
  );
}

export function merge(a: Schema, b: Schema, where: string, cost: Cost): Schema {
  const merged: Record<string, unknown> = { ...keywords(a) };
  for (const [key, value] of Object.entries(keywords(b))) {
    cost.spend(size(merged[key]) + size(value));
    merged[key] = key in merged ? join(key, merged[key], value, where, cost) : value;
  }
  const one = 'additionalProperties' in a || 'additionalProperties' in b;
  const both = isSchema(a.properties) && isSchema(b.properties);
  if (one && both && a.additionalProperties !== b.additionalProperties) {
    throw new SchemaError(`${where}: additionalProperties differ between joined schemas`);
  }
  return merged;
}

/** Entries to look at. */
function size(value: unknown): number {
  return typeof value === 'object' && value !== null ? 1 + Object.keys(value).length : 1;
}

function join(key: string, a: unknown, b: unknown, where: string, cost: Cost): unknown {
  if (isDeepStrictEqual(a, b)) return a;
  if (typeof a === 'number' && typeof b === 'number') {
    if (key.startsWith('min') || key === 'exclusiveMinimum') return Math.max(a, b);
    if (key.startsWith('max') || key === 'exclusiveMaximum') return Math.min(a, b);
  }
  if (key === 'required' && Array.isArray(a) && Array.isArray(b)) return [...new Set([...a, ...b])];
  if (key === 'properties' && isSchema(a) && isSchema(b)) return joinProperties(a, b);
  if (key === 'allOf' && Array.isArray(a) && Array.isArray(b)) return [...a, ...b];
  if (key === 'type' || key === 'enum') {
    cost.spend(list(a).length * list(b).length);
    const common = list(a).filter((value) =>
      list(b).some((other) => isDeepStrictEqual(value, other)),
    );
    if (common.length > 0) return common;
  }
  throw new SchemaError(`${where}: two different values of ${key} cannot both be followed`);
}

function joinProperties(a: Schema, b: Schema): Schema {
  const joined: Record<string, unknown> = { ...a };
  for (const [name, schema] of Object.entries(b)) {
    joined[name] = Object.hasOwn(a, name) ? { allOf: [a[name], schema] } : schema;
  }
  return joined;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}
