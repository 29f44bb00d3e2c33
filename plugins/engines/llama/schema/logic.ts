/**
 * Owns how conditions become alternatives and narrower keywords: `not`, `if`, and what depends on a property.
 * It must never allow what the keyword forbids; where it cannot tell, the keyword is left to the model.
 */
import { isDeepStrictEqual } from 'node:util';
import { typesOf } from './keywords.js';
import type { Places } from './place.js';
import { isSchema, type JsonType, readSchema, type Schema } from './read.js';
import { NOT_TEXTS } from './strings.js';

/** Alternatives that conditions may multiply a schema by. */
const BRANCHES_MAX = 8;

/** What follows `$ref` and `allOf` to the schema itself. */
export type Resolve = (schema: unknown) => Schema | null;

/** A schema without conditions, whose branches are in `anyOf`. */
export function withoutConditions(schema: Schema, places: Places, resolve: Resolve): Schema {
  let result: Schema = schema;
  if ('not' in result) result = withoutNot(result, places, resolve);
  if ('dependentRequired' in result || 'dependentSchemas' in result)
    result = withoutDependents(result, places);
  if ('if' in result) return withoutIf(result, places, resolve);
  const { then: _then, else: _else, ...rest } = result;
  return rest;
}

function with_(schema: Schema, more: Schema): Schema {
  return { allOf: [schema, more] };
}

function branched(schema: Schema, branches: readonly Schema[]): Schema {
  const { anyOf, ...rest } = schema;
  const all = { ...rest, anyOf: branches };
  return anyOf === undefined
    ? all
    : { ...rest, allOf: [...list(rest.allOf), { anyOf }, { anyOf: branches }] };
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function named(value: unknown): Schema {
  return isSchema(value) ? value : {};
}

const forbidden = (name: string): Schema => ({ properties: { [name]: false } });

// --------------------------------------------------------------- dependents

function withoutDependents(schema: Schema, places: Places): Schema {
  const { dependentRequired, dependentSchemas, ...rest } = schema;
  const needs: [string, Schema][] = [
    ...Object.entries(named(dependentRequired)).map(([name, needed]): [string, Schema] => [
      name,
      { required: [...list(needed), name] },
    ]),
    ...Object.entries(named(dependentSchemas)).map(([name, needed]): [string, Schema] => [
      name,
      with_(isSchema(needed) ? needed : { allOf: [needed] }, { required: [name] }),
    ]),
  ];
  let result: Schema = rest;
  let branches = 1;
  for (const [name, then] of needs) {
    if (list(schema.required).includes(name)) result = with_(result, then);
    else if (isNamed(schema, name)) {
      branches *= 2;
      if (branches > BRANCHES_MAX) {
        places.leave(
          'dependentRequired',
          `is given for more than ${Math.log2(BRANCHES_MAX)} properties`,
        );
        break;
      }
      result = with_(result, { anyOf: [forbidden(name), then] });
    }
  }
  return result;
}

/** Whether the name may be put out at all: further ones are only where nothing else is listed, or where they are asked for. */
function isNamed(schema: Schema, name: string): boolean {
  const { properties, required, additionalProperties, patternProperties } = schema;
  if (Object.hasOwn(named(properties), name)) return true;
  if (additionalProperties !== undefined) return additionalProperties !== false;
  if (['$ref', 'allOf', 'anyOf', 'oneOf'].some((key) => key in schema)) return true;
  return patternProperties !== undefined || (!isSchema(properties) && list(required).length === 0);
}

// ---------------------------------------------------------------------- not

function withoutNot(schema: Schema, places: Places, resolve: Resolve): Schema {
  const { not, ...rest } = schema;
  const parts = notParts(not, resolve);
  return parts.reduce<Schema>((result, part) => notOne(result, part, places), rest);
}

/** None of several alternatives: each of them not. */
function notParts(not: unknown, resolve: Resolve): unknown[] {
  if (not === false) return [];
  const schema = resolve(not);
  if (schema === null) return [not];
  const [key, ...others] = Object.keys(schema);
  const isEither = others.length === 0 && (key === 'anyOf' || key === 'oneOf');
  return isEither && key === 'anyOf'
    ? list(schema.anyOf).flatMap((each) => notParts(each, resolve))
    : [schema];
}

function notOne(schema: Schema, not: unknown, places: Places): Schema {
  if (!isSchema(not) || Object.keys(not).length === 0)
    throw places.nothing('not with a schema that everything fits');
  const keys = Object.keys(not).sort().join();
  const narrowed = NOT[keys]?.(schema, not) ?? null;
  if (narrowed !== null) return narrowed;
  places.leave('not', 'is more than a grammar can leave out');
  return schema;
}

/** By the keywords that there are. null: cannot be told. */
const NOT: Readonly<Record<string, (schema: Schema, not: Schema) => Schema | null>> = {
  required: notRequired,
  'required,type': (schema, not) =>
    isDeepStrictEqual(not.type, ['object']) ? notRequired(schema, not) : null,
  enum: notEnum,
  'enum,type': notEnum,
  type: (schema, not) => {
    const excluded = list(not.type);
    const left = typesOf(schema).filter(
      (type) => !excluded.includes(type) && !(type === 'integer' && excluded.includes('number')),
    );
    const wholeAlone = excluded.includes('integer') && left.includes('number');
    return left.length === 0 || wholeAlone ? null : { ...schema, type: left };
  },
  pattern: (schema, not) => notText(schema, { pattern: String(not.pattern) }),
  'pattern,type': (schema, not) => notText(schema, { pattern: String(not.pattern) }),
  properties: notProperties,
  'properties,required': notProperties,
  'properties,required,type': notProperties,
  'properties,type': notProperties,
};

function notRequired(schema: Schema, not: Schema): Schema | null {
  const names = list(not.required).map(String);
  if (names.some((name) => !isNamed(schema, name))) return schema;
  if (names.length > BRANCHES_MAX) return null;
  const typed = { ...schema, type: ['object'] };
  const [only] = names;
  if (names.length === 1 && only !== undefined) return with_(typed, forbidden(only));
  return branched(typed, names.map(forbidden));
}

function notEnum(schema: Schema, not: Schema): Schema | null {
  const values = list(not.enum);
  if (Array.isArray(schema.enum)) {
    const left = schema.enum.filter(
      (value) => !values.some((each) => isDeepStrictEqual(each, value)),
    );
    return left.length === 0 ? null : { ...schema, enum: left };
  }
  const types = typesOf(schema);
  const reached = values.filter((value) => types.some((type) => mayBe(value, type)));
  if (reached.length === 0) return schema;
  if (reached.every((value) => typeof value === 'string')) {
    return { ...schema, [NOT_TEXTS]: [...list(schema[NOT_TEXTS]), { texts: reached }] };
  }
  if (!reached.every((value) => value === null || typeof value === 'boolean')) return null;
  const left = types.filter((type) => type !== 'null' && type !== 'boolean');
  const flags = [true, false].filter(
    (flag) => types.includes('boolean') && !reached.includes(flag),
  );
  if (left.length > 0 && flags.length === 0) return { ...schema, type: left };
  return left.length === 0 && flags.length > 0 ? { ...schema, enum: flags } : null;
}

function mayBe(value: unknown, type: JsonType): boolean {
  if (value === null) return type === 'null';
  if (Array.isArray(value)) return type === 'array';
  if (typeof value === 'number') return type === 'number' || type === 'integer';
  return typeof value === type;
}

/** What is no text fits such a pattern, so only texts are left. */
function notText(schema: Schema, text: { readonly pattern: string }): Schema | null {
  if (!typesOf(schema).includes('string')) return null;
  return { ...schema, type: ['string'], [NOT_TEXTS]: [...list(schema[NOT_TEXTS]), text] };
}

/** Of one property: it must be there with another value, or, where it is needed for the rest to fit, not be there. */
function notProperties(schema: Schema, not: Schema): Schema | null {
  const [entry, ...others] = Object.entries(named(not.properties));
  if (entry === undefined || others.length > 0) return null;
  const [name, inner] = entry;
  const needed = list(not.required);
  if (needed.some((each) => each !== name)) return null;
  const value = { properties: { [name]: { not: inner } } };
  return with_(
    { ...schema, type: ['object'] },
    needed.length > 0 ? value : { ...value, required: [name] },
  );
}

// ----------------------------------------------------------------------- if

/** A question about one property with a list of values parts the schema; other questions are left to the model. */
function withoutIf(schema: Schema, places: Places, resolve: Resolve): Schema {
  const { if: asked, then = true, else: other = true, ...rest } = schema;
  if (then === true && other === true) return rest;
  if (typeof asked === 'boolean') return with_(rest, { allOf: [asked ? then : other] });
  const question = questionOf(resolve(asked));
  if (question === null) {
    places.leave('if', 'asks for more than the value of one property');
    return rest;
  }
  const { name, values, needed } = question;
  const absent: Schema = { allOf: [forbidden(name), needed ? other : then] };
  const isThere = list(rest.required).includes(name);
  const branches: Schema[] = [
    { allOf: [{ properties: { [name]: { enum: values } }, required: [name] }, then] },
    { allOf: [{ properties: { [name]: { not: { enum: values } } }, required: [name] }, other] },
    ...(isThere ? [] : [absent]),
  ];
  return branched(rest, branches);
}

interface Question {
  readonly name: string;
  readonly values: readonly unknown[];
  /** The property has to be there. */
  readonly needed: boolean;
}

function questionOf(asked: Schema | null): Question | null {
  if (asked === null) return null;
  const { properties, required, type, ...others } = asked;
  if (Object.keys(others).length > 0) return null;
  if (type !== undefined && !isDeepStrictEqual(type, ['object'])) return null;
  const [entry, ...more] = Object.entries(named(properties));
  if (entry === undefined || more.length > 0) return null;
  const [name, inner] = entry;
  if (list(required).some((each) => each !== name) || !isSchema(inner)) return null;
  const values = 'const' in inner ? [inner.const] : inner.enum;
  const isList = Object.keys(inner).every((key) => ['const', 'enum', 'type'].includes(key));
  if (!Array.isArray(values) || !isList) return null;
  return { name, values, needed: list(required).length > 0 };
}

// -------------------------------------------------------------------- oneOf

/** Alternatives that only ask for different properties: each then forbids what the others ask for. */
export function apart(alternatives: readonly unknown[], places: Places): readonly unknown[] {
  const needed = alternatives.map((each) => {
    const schema = isSchema(each) ? readSchema(each, places) : {};
    const [key, ...others] = Object.keys(schema);
    return key === 'required' && others.length === 0 ? list(schema.required).map(String) : null;
  });
  if (needed.some((names) => names === null) || needed.length > BRANCHES_MAX) return alternatives;
  const lists = needed as readonly (readonly string[])[];
  return lists.flatMap((own, i) => {
    const others = lists.filter((_, j) => j !== i);
    const forbids = others.map((names) => names.find((name) => !own.includes(name)));
    if (forbids.includes(undefined)) return [];
    const properties = Object.fromEntries(forbids.map((name) => [String(name), false]));
    return [{ required: own, properties, type: ['object'] }];
  });
}
