/**
 * Owns the metadata of caches: its bounds, and the form it is kept in.
 * It must never treat a key as anything but text: `__proto__` is one like any other.
 */
import { limits } from '../limits/index.js';
import { type JsonObject, Type } from './schema.js';

/** Pairs in the order of their keys, so that equal metadata are equal values. */
export type CacheMetadata = readonly (readonly [key: string, value: string])[];

export const metadataSchema = Type.Unsafe<JsonObject>({
  type: 'object',
  maxProperties: limits.cacheMetadataMax,
  propertyNames: { type: 'string', maxLength: limits.cacheMetadataKeyLengthMax },
  additionalProperties: { type: 'string', maxLength: limits.cacheMetadataValueLengthMax },
});

export function readMetadata(wire: JsonObject | null | undefined): CacheMetadata {
  return Object.entries(wire ?? {})
    .map(([key, value]) => [key, String(value)] as const)
    .sort(([one], [other]) => (one < other ? -1 : 1));
}

/** As JSON text, because an object of our making would lose a key `__proto__`. */
export function metadataJson(metadata: CacheMetadata): string {
  const fields = metadata.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  return `{${fields.join(',')}}`;
}
