/**
 * Owns the pattern with which a test expects an error of the table of errors.
 * It must never match by text, only by row: the texts have their own test.
 */
import type { ErrorName } from '../../src/errors.js';

export function apiError(row: ErrorName): { name: string; row: ErrorName } {
  return { name: 'ApiError', row };
}
