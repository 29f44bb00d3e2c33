/**
 * Owns the bounds of content review, as a part of the one list of bounds.
 * It must never be imported but by that list.
 */
export const reviewLimits = {
  /** How long a filter may take for one answer; settings may move it. */
  filterMs: 5_000,
  /** When to come back to a filter that does not answer. */
  filterRetryMs: 1_000,
  filtersMax: 8,
  filterFileBytesMax: 16 * 1024 * 1024,
  filterRulesMax: 200_000,
  /** Characters of one term, and of the longest text that one pattern can match. */
  filterRuleLengthMax: 256,
  /** A match may be spread by blanks and invisible characters over this many UTF-16 units. */
  filterMatchLengthMax: 1_024,
  /** States of all patterns together: what one character may cost at most. */
  filterStatesMax: 20_000,
  /** A long text is read this far at once (UTF-16 units), then others have their turn. */
  filterSliceLength: 64 * 1024,
} as const;
