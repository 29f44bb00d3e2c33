/**
 * Owns the proof that no JSON of one alternative fits another, which `oneOf` asks for.
 * It must never claim it without proof.
 */
import { isDeepStrictEqual } from 'node:util';
import { typesOf } from './keywords.js';
import { isSchema, type Schema } from './read.js';

const DEPTH_MAX = 6;

/** What follows references and joins, and is ready to be looked at; null where that is not known. */
export type Look = (schema: unknown) => Schema | null;

export function disjoint(a: unknown, b: unknown, look: Look, depth = 0): boolean {
  const [left, right] = [look(a), look(b)];
  if (left === null || right === null || depth > DEPTH_MAX) return false;
  for (const [one, other] of [
    [left, b],
    [right, a],
  ] as const) {
    const inner = one.anyOf ?? one.oneOf;
    if (Array.isArray(inner) && inner.every((each) => disjoint(each, other, look, depth + 1)))
      return true;
  }
  if (Array.isArray(left.enum) && Array.isArray(right.enum)) {
    return !left.enum.some((value) =>
      (right.enum as unknown[]).some((x) => isDeepStrictEqual(x, value)),
    );
  }
  const common = [...shared(left, right), ...shared(right, left)];
  if (common.length === 0) return true;
  return common.every((type) => type === 'object') && objectsApart(left, right, look, depth);
}

/** Types that the grammar puts out for the first and that the second allows. */
function shared(from: Schema, to: Schema): readonly string[] {
  const put = typeNames(from, typesOf(from));
  const allowed = typeNames(to, null);
  return put.filter((type) => allowed === null || allowed.includes(type));
}

/** null: any type. */
function typeNames<Other extends readonly string[] | null>(
  { enum: values, type }: Schema,
  otherwise: Other,
): readonly string[] | Other {
  if (Array.isArray(values)) return [...new Set(values.map(nameOf))];
  const types = Array.isArray(type) ? type.map(String) : otherwise;
  return types === null
    ? otherwise
    : [...new Set(types.map((each) => (each === 'integer' ? 'number' : each)))];
}

function nameOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function objectsApart(a: Schema, b: Schema, look: Look, depth: number): boolean {
  const [left, right] = [propertiesOf(a), propertiesOf(b)];
  for (const name of [...needed(a), ...needed(b)]) {
    const bothNeed = needed(a).includes(name) && needed(b).includes(name);
    const bothList = Object.hasOwn(left, name) && Object.hasOwn(right, name);
    if (bothNeed && bothList && disjoint(left[name], right[name], look, depth + 1)) return true;
  }
  return lacks(a, b) && lacks(b, a);
}

/** Whether what the grammar puts out for the first never has all that the second needs, or has what it forbids. */
function lacks(a: Schema, b: Schema): boolean {
  const [own, other] = [propertiesOf(a), propertiesOf(b)];
  const isOpen =
    a.additionalProperties === undefined
      ? Object.keys(own).length === 0 && needed(a).length === 0
      : a.additionalProperties !== false;
  const puts = (name: string) =>
    own[name] !== false &&
    (Object.hasOwn(own, name) || isOpen || 'patternProperties' in a || needed(a).includes(name));
  if (needed(b).some((name) => !puts(name))) return true;
  const isClosed = b.additionalProperties === false && !('patternProperties' in b);
  return needed(a).some(
    (name) => other[name] === false || (isClosed && !Object.hasOwn(other, name)),
  );
}

function propertiesOf({ properties }: Schema): Schema {
  return isSchema(properties) ? properties : {};
}

function needed({ required }: Schema): readonly string[] {
  return Array.isArray(required) ? required.map(String) : [];
}
