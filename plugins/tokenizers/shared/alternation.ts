/**
 * Owns the expression that finds added tokens in text.
 * It must never find a shorter one where a longer one begins at the same place.
 */

/** Longest first, as the reference encoders look for them; null where there is none. */
export function alternation(texts: readonly string[]): RegExp | null {
  if (texts.length === 0) return null;
  const longestFirst = texts.toSorted((a, b) => b.length - a.length);
  const escaped = longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  return new RegExp(escaped.join('|'), 'g');
}
