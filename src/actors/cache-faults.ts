/**
 * Owns what is said when a cache cannot be made or found.
 * It must never tell whether an id was ever given out.
 */
import { ApiError, fromErrorValue, invalid, toErrorValue } from '../errors.js';
import { limits } from '../limits.js';
import type { CacheError } from '../protocol/caching.js';
import { quoted, shown } from '../protocol/field.js';

export function unknownFamily(family: string, families: readonly string[]): ApiError {
  const allowed = families.map(shown).join(', ');
  return invalid(`model must be one of the families ${allowed}, got ${quoted(family)}`, 'model');
}

/** As a chat says it of each of the family's models. */
export function closedFamily(family: string): ApiError {
  return new ApiError('modelNotFound', {}, { param: 'model', code: family });
}

export function lengthFault(tokens: number): CacheError | null {
  if (tokens <= limits.cacheTokensMax) return null;
  return cacheError(
    invalid(`messages and tools must have at most ${limits.cacheTokensMax} tokens, got ${tokens}`),
  );
}

export function cacheError(cause: unknown): CacheError {
  const { type, message } = fromErrorValue(toErrorValue(cause));
  return { type, message };
}

export function notFound(id: string): ApiError {
  const shownId = id.slice(0, 2 * ('cache-'.length + limits.cacheIdLength));
  return new ApiError('notFound', { kind: 'cache', id: shownId });
}
