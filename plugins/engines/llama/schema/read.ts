/**
 * Owns the form in which schemas are compiled: the keywords that decide, well typed, in their newest spelling.
 * It must never let an older spelling or a wrong type reach the rest of the compiler.
 */
import type { Places } from './place.js';

export type Schema = Readonly<Record<string, unknown>>;

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
export type JsonType = (typeof TYPES)[number];

type Fits = (value: unknown) => boolean;

const isNumber: Fits = (value) => typeof value === 'number';
const isCount: Fits = (value) => typeof value === 'number' && value >= 0;
const isText: Fits = (value) => typeof value === 'string';
const isTexts: Fits = (value) => Array.isArray(value) && value.every(isText);
const isOne: Fits = (value) => typeof value === 'boolean' || isSchema(value);
const isMany: Fits = (value) => Array.isArray(value) && value.length > 0;
const isFlag: Fits = (value) => typeof value === 'boolean';

/** Keywords that decide, and what they have to be. All others are annotations. */
const DECIDING: Readonly<Record<string, Fits>> = {
  $ref: isText,
  type: () => true,
  enum: isMany,
  const: () => true,
  allOf: isMany,
  anyOf: isMany,
  oneOf: isMany,
  not: isOne,
  if: isOne,
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: isOne,
  else: isOne,
  properties: isSchema,
  required: (value) => isTexts(value) || isFlag(value),
  additionalProperties: isOne,
  patternProperties: isSchema,
  propertyNames: isOne,
  minProperties: isCount,
  maxProperties: isCount,
  dependentRequired: isSchema,
  dependentSchemas: isSchema,
  dependencies: isSchema,
  unevaluatedProperties: isOne,
  items: (value) => isOne(value) || Array.isArray(value),
  prefixItems: isMany,
  additionalItems: isOne,
  unevaluatedItems: isOne,
  contains: isOne,
  minContains: isCount,
  maxContains: isCount,
  minItems: isCount,
  maxItems: isCount,
  uniqueItems: isFlag,
  minLength: isCount,
  maxLength: isCount,
  pattern: isText,
  format: isText,
  minimum: isNumber,
  maximum: isNumber,
  exclusiveMinimum: (value) => isNumber(value) || isFlag(value),
  exclusiveMaximum: (value) => isNumber(value) || isFlag(value),
  multipleOf: (value) => typeof value === 'number' && value > 0,
  divisibleBy: (value) => typeof value === 'number' && value > 0,
  nullable: isFlag,
  $recursiveRef: isText,
  $dynamicRef: isText,
};

/** Leaves to the model what has a wrong type. */
export function readSchema(schema: Schema, places: Places): Schema {
  // As many steps as it takes time: joined schemas are read again and again.
  places.cost.spend(MODERN.length + Object.keys(schema).length);
  const read: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    const fits = Object.hasOwn(DECIDING, key) ? DECIDING[key] : undefined;
    if (fits === undefined || value === undefined) continue;
    if (fits(value)) read[key] = value;
    else if (value !== null) places.leave(key, 'has a value of the wrong type');
  }
  for (const modernise of MODERN) modernise(read, places);
  return read;
}

type Modernise = (schema: Record<string, unknown>, places: Places) => void;

const MODERN: readonly Modernise[] = [
  (schema) => {
    schema.$ref ??= schema.$recursiveRef ?? schema.$dynamicRef;
    drop(schema, '$recursiveRef', '$dynamicRef', schema.$ref === undefined ? '$ref' : '');
  },
  (schema) => {
    if (typeof schema.required === 'boolean') drop(schema, 'required');
    if ('const' in schema) constToEnum(schema);
    schema.multipleOf ??= schema.divisibleBy;
    drop(schema, 'divisibleBy', schema.multipleOf === undefined ? 'multipleOf' : '');
  },
  (schema) => {
    for (const [flag, bound] of EXCLUSIVE) {
      if (typeof schema[flag] !== 'boolean') continue;
      const excludes = schema[flag] === true && schema[bound] !== undefined;
      if (excludes) schema[flag] = schema[bound];
      else drop(schema, flag);
    }
  },
  readItems,
  (schema, places) => {
    for (const [name, needed] of Object.entries((schema.dependencies as Schema) ?? {})) {
      const key = isTexts(needed) ? 'dependentRequired' : 'dependentSchemas';
      if (isTexts(needed) || isOne(needed)) {
        schema[key] = { ...((schema[key] as Schema) ?? {}), [name]: needed };
      } else places.leave('dependencies', 'has a value of the wrong type');
    }
    drop(schema, 'dependencies');
  },
  (schema, places) => {
    const isClosed = schema.unevaluatedProperties === false && !hasBranches(schema);
    if (isClosed) schema.additionalProperties ??= false;
    else if ('unevaluatedProperties' in schema && schema.unevaluatedProperties !== false)
      places.leave('unevaluatedProperties', 'is not known here');
    if ('unevaluatedItems' in schema && schema.unevaluatedItems !== false)
      places.leave('unevaluatedItems', 'is not known here');
    drop(schema, 'unevaluatedProperties', 'unevaluatedItems');
  },
  readTypes,
];

const EXCLUSIVE = [
  ['exclusiveMinimum', 'minimum'],
  ['exclusiveMaximum', 'maximum'],
] as const;

/** Without them no further names are put out in any case. */
function hasBranches(schema: Schema): boolean {
  return ['$ref', 'allOf', 'anyOf', 'oneOf', 'if'].some((key) => key in schema);
}

function constToEnum(schema: Record<string, unknown>): void {
  const { const: only, enum: values } = schema;
  const text = JSON.stringify(only);
  const known = !Array.isArray(values) || values.some((each) => JSON.stringify(each) === text);
  if (known) schema.enum = [only];
  else schema.allOf = [...((schema.allOf as unknown[]) ?? []), { enum: [only] }];
  drop(schema, 'const');
}

/** A list of schemas in `items` is `prefixItems`, and `additionalItems` what follows it. */
function readItems(schema: Record<string, unknown>): void {
  const { items, additionalItems, prefixItems } = schema;
  if (Array.isArray(items)) {
    if (items.length > 0) schema.prefixItems = prefixItems ?? items;
    if (additionalItems === undefined) drop(schema, 'items');
    else schema.items = additionalItems;
  }
  drop(schema, 'additionalItems');
}

function readTypes(schema: Record<string, unknown>, places: Places): void {
  if (schema.type !== undefined) {
    const types = [schema.type].flat();
    const known = types.filter((type) => (TYPES as readonly unknown[]).includes(type));
    const any = types.length === 0 || types.includes('any');
    if (known.length < types.length && !any) places.leave('type', 'names an unknown type');
    if (known.length === types.length && !any) schema.type = known;
    else drop(schema, 'type');
  }
  if (schema.nullable === true) makeNullable(schema);
  drop(schema, 'nullable');
}

function makeNullable(schema: Record<string, unknown>): void {
  if (Array.isArray(schema.type)) schema.type = [...new Set([...schema.type, 'null'])];
  if (Array.isArray(schema.enum) && !schema.enum.includes(null))
    schema.enum = [...schema.enum, null];
  const inner = ['$ref', 'allOf', 'anyOf', 'oneOf'].filter((key) => key in schema);
  if (inner.length === 0 || schema.type !== undefined) return;
  const { nullable: _, ...own } = schema;
  for (const key of Object.keys(schema)) drop(schema, key);
  schema.anyOf = [own, { type: 'null' }];
}

function drop(schema: Record<string, unknown>, ...keys: readonly string[]): void {
  for (const key of keys) delete schema[key];
}
