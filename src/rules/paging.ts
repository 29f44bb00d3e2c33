/**
 * Owns the range of a page: which part of an ordered index it covers, and in which direction.
 * It must never read the index: it is given the places of the bounds.
 */
import { invalid } from '../errors.js';
import { quoted } from '../protocol/field.js';
import type { PageQuery } from '../protocol/page-query.js';

export interface PageRange<Place> {
  /** Both excluded, in the rising order of the index, whatever the order of the list. */
  readonly lower: Place | null;
  readonly upper: Place | null;
  readonly reverse: boolean;
}

/**
 * @param place the position of an item in the index, or null for an unknown one.
 * @throws ApiError for a bound that names no item.
 */
export function pageRange<Place>(
  query: PageQuery,
  place: (name: string) => Place | null,
): PageRange<Place> {
  const after = boundPlace('after', query.after, place);
  const before = boundPlace('before', query.before, place);
  return query.order === 'asc'
    ? { lower: after, upper: before, reverse: false }
    : { lower: before, upper: after, reverse: true };
}

function boundPlace<Place>(
  bound: 'after' | 'before',
  name: string | null,
  place: (name: string) => Place | null,
): Place | null {
  if (name === null) return null;
  const found = place(name);
  if (found === null) {
    throw invalid(`${bound} must name an item of the list, got ${quoted(name)}`, bound);
  }
  return found;
}
