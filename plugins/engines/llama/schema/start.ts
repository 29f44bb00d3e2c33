/**
 * Owns with which text a schema's JSON can begin, as far as that is certain, to tell alternatives apart.
 * It must never claim more than is certain: '' says "with anything".
 */
import type { Cost } from './cost.js';
import { isSchema, type Schema } from './read.js';

/** Deep enough for the tag of a tagged union behind a reference. */
const DEPTH_MAX = 4;
const ANYTHING: readonly string[] = [''];
/** Every number, since one may begin another. */
const NUMBER = '0';
const BY_TYPE: Readonly<Record<string, readonly string[]>> = {
  object: ['{'],
  array: ['['],
  string: ['"'],
  number: [NUMBER],
  integer: [NUMBER],
  boolean: ['true', 'false'],
  null: ['null'],
};

export interface StartContext {
  readonly resolve: (pointer: string) => unknown;
  readonly cost: Cost;
}

export function startOf(value: unknown, context: StartContext, depth = 0): readonly string[] {
  const { resolve, cost } = context;
  cost.spend();
  if (!isSchema(value) || depth > DEPTH_MAX) return ANYTHING;
  const inner = (each: unknown) => {
    const starts = startOf(each, context, depth + 1);
    cost.spend(starts.length);
    return starts;
  };
  const alternatives = value.anyOf ?? value.oneOf;
  if (typeof value.$ref === 'string') return inner(resolve(value.$ref));
  if (Array.isArray(value.allOf)) return all([...value.allOf, { ...value, allOf: null }], inner);
  if (Array.isArray(alternatives)) return alternatives.flatMap(inner);
  if ('const' in value) return [constantStart(value.const)];
  if (Array.isArray(value.enum)) {
    cost.spend(value.enum.length);
    return value.enum.map(constantStart);
  }
  const types = [value.type ?? (isSchema(value.properties) ? 'object' : null)].flat();
  return types.flatMap((type) =>
    type === 'object' ? objectStart(value, inner) : (BY_TYPE[String(type)] ?? ANYTHING),
  );
}

/** All of them hold, so the longest certain start is certain. */
function all(
  schemas: readonly unknown[],
  inner: (each: unknown) => readonly string[],
): readonly string[] {
  const starts = schemas.map(inner).sort((a, b) => shortest(b) - shortest(a));
  return starts[0] ?? ANYTHING;
}

function shortest(starts: readonly string[]): number {
  return Math.min(...starts.map((start) => start.length));
}

function objectStart(schema: Schema, inner: (each: unknown) => readonly string[]): string[] {
  const { properties, required } = schema;
  const [first] = isSchema(properties) ? Object.entries(properties) : [];
  if (!first || !Array.isArray(required) || !required.includes(first[0])) return ['{'];
  return inner(first[1]).map((start) => `{${JSON.stringify(first[0])}:${start}`);
}

function constantStart(value: unknown): string {
  return typeof value === 'number' ? NUMBER : JSON.stringify(value);
}
