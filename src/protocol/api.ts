/**
 * Owns the words the API is described in: a resource is a row of operations, its schemas and its errors.
 * It must never know a path or a schema of a resource; those are in the tables beside it.
 */
import type { ErrorName } from '../errors.js';
import { type TSchema, Type } from './schema.js';

export interface Media {
  /** Name of a component schema, or null for plain text. */
  readonly schema: string | null;
  readonly type: string;
  readonly description?: string;
  readonly examples?: Readonly<Record<string, unknown>>;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: true;
  readonly description: string;
  readonly schema: TSchema;
  /** How an object is written in a query: `name[key]=value`. */
  readonly style?: 'deepObject';
}

export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** Variable segments in braces: `/v1/models/{id}`. */
  readonly path: string;
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /** A user's key, the operator's key, or none. */
  readonly secured: boolean | 'admin';
  readonly parameters?: readonly Parameter[];
  readonly request?: Media;
  /** A request without a body is one with an empty object. */
  readonly requestOptional?: boolean;
  readonly response: { readonly description: string; readonly media: readonly Media[] };
  /** Rows that this operation can answer with, besides those that each secured operation can. */
  readonly errors: readonly ErrorName[];
  /** Where errors have another form than in the rest of the API. */
  readonly errorForm?: ErrorDescription;
}

export interface ErrorDescription {
  /** Name of a component schema. */
  readonly schema: string;
  example(name: ErrorName): object;
}

export interface Resource {
  readonly tag: string;
  readonly description: string;
  readonly schemas: Readonly<Record<string, TSchema>>;
  readonly operations: readonly Operation[];
}

/** A segment of the path. Control characters are refused before any resource sees them. */
export function pathParameter(
  name: string,
  description: string,
  schema: TSchema = Type.String({ minLength: 1, pattern: '^[^\\x00-\\x1f\\x7f]+$' }),
): Parameter {
  return { name, in: 'path', required: true, description, schema };
}

/** The ids that are served become the allowed values of `model`. */
export function withModels(schema: TSchema, ids: readonly string[], description: string): TSchema {
  const { properties } = schema as { properties?: Readonly<Record<string, unknown>> };
  const model = { type: 'string', enum: ids, description };
  return { ...schema, properties: { ...properties, model } } as TSchema;
}
