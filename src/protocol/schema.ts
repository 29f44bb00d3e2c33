/**
 * Owns the door to `typebox`: building a schema, its static type, and a compiled check of it.
 * It must never know what a schema is for, and no other file may import the package.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';

export { type Static, type TSchema, Type };

export type Check<Schema extends TSchema> = (value: unknown) => value is Static<Schema>;

/**
 * Compiled once, by the first value: no start waits for the checks of requests that may never come. A check of a small value
 * takes well under a microsecond.
 */
export function compile<Schema extends TSchema>(schema: Schema): Check<Schema> {
  let validator: Validator | null = null;
  return (value): value is Static<Schema> => {
    validator ??= Compile(schema);
    return validator.Check(value);
  };
}

/** An optional field of a request: clients send null where they mean "absent". */
export function absent<Schema extends TSchema>(schema: Schema) {
  return Type.Optional(Type.Union([schema, Type.Null()]));
}

/** Any JSON object. A record type would test each of its keys against a pattern. */
export const jsonObject = Type.Unsafe<JsonObject>({ type: 'object' });

export type JsonObject = { readonly [key: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
