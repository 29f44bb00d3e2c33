/**
 * Owns the comparison of two readings of a document: how many words of the one are in the other, and in which order.
 * It must never compare white space, rules and marks: they differ between readers.
 */

export interface WordsCompared {
  /** Share of the expected words that were found, each as often as it occurs. */
  readonly found: number;
  /** Share of the words of the first reading that the expected one has, too. */
  readonly precise: number;
  /** Share of the phrases that occur once in both and are in the right order. */
  readonly ordered: number;
}

/** Shorter texts have few phrases, so their single words are compared. */
const PHRASE_TEXT_WORDS = 40;
const PHRASE_WORDS = 3;
/** Where every phrase recurs, or none is met, none is in a wrong place: what is missing counts as not found. */
const NOTHING_TO_ORDER = 1;

export function compareWords(got: string, wanted: string): WordsCompared {
  const [own, other] = [wordsOf(got), wordsOf(wanted)];
  const length = other.length > PHRASE_TEXT_WORDS ? PHRASE_WORDS : 1;
  const places = phrasesOf(own, length);
  const met = [...phrasesOf(other, length)]
    .map(([phrase, at]) => (at === null ? null : places.get(phrase)))
    .filter((at) => typeof at === 'number');
  return {
    found: foundCount(own, other) / other.length,
    precise: foundCount(other, own) / Math.max(1, own.length),
    ordered: met.length === 0 ? NOTHING_TO_ORDER : longestRise(met) / met.length,
  };
}

function wordsOf(text: string): string[] {
  return (
    text
      .normalize('NFKC')
      .replaceAll('\u00ad', '')
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

function foundCount(own: readonly string[], other: readonly string[]): number {
  const left = new Map<string, number>();
  for (const word of own) left.set(word, (left.get(word) ?? 0) + 1);
  return other.filter((word) => {
    const count = left.get(word) ?? 0;
    left.set(word, count - 1);
    return count > 0;
  }).length;
}

/** The position of each phrase; null for one that occurs several times. */
function phrasesOf(words: readonly string[], length: number): Map<string, number | null> {
  const phrases = new Map<string, number | null>();
  for (let at = 0; at + length <= words.length; at += 1) {
    const phrase = words.slice(at, at + length).join(' ');
    phrases.set(phrase, phrases.has(phrase) ? null : at);
  }
  return phrases;
}

/** Length of the longest increasing subsequence. */
function longestRise(places: readonly number[]): number {
  const ends: number[] = [];
  for (const place of places) {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle] ?? 0) < place) low = middle + 1;
      else high = middle;
    }
    ends[low] = place;
  }
  return ends.length;
}
