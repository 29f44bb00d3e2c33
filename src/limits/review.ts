/**
 * Owns the bounds of content review.
 * It must be used through `limits` alone, where its relations are asserted.
 */
export const reviewLimits = {
  /** How long a filter may take for one answer; settings may change it. */
  filterMs: 5_000,
  /** Retry-after when a filter does not answer. */
  filterRetryMs: 1_000,
  filtersMax: 8,
  filterFileBytesMax: 16 * 1024 * 1024,
  filterRulesMax: 200_000,
  /** Characters of one term, and of the longest text that one pattern can match. */
  filterRuleLengthMax: 256,
  /** A match may extend over this many UTF-16 units, with blanks and invisible characters in it. */
  filterMatchLengthMax: 1_024,
  /** States of all patterns together; they bound the cost of one character. */
  filterStatesMax: 20_000,
  /** UTF-16 units of a long text that are checked at once; then others have their turn. */
  filterSliceLength: 64 * 1024,
  /** Work without a pause, in characters read and states of patterns visited: some milliseconds. */
  filterSliceWork: 100_000,
} as const;
