/**
 * Owns the repair of texts whose fonts map their glyphs to UTF-8 where a PDF wants UTF-16: each letter came as a Hangul syllable.
 * It must never change a text that may be Korean.
 */

const SYLLABLE = /[\uac00-\ud7a3]/g;
/** As few syllables may happen to look like pairs of bytes, and so may as few different ones, however often they come. */
const SYLLABLES_MIN = 8;
const DISTINCT_MIN = 6;
/** Of the marks that two bytes can say, those that stand among words. */
const WRITTEN = /^[\p{L}\u00a0¡§©«®°·»¿×]$/u;

export function withLettersOfPairs(text: string): string {
  const syllables = text.match(SYLLABLE);
  if (syllables === null || syllables.length < SYLLABLES_MIN) return text;
  const distinct = new Set(syllables);
  if (distinct.size < DISTINCT_MIN) return text;
  // One in four syllables looks like a pair; that all do is no language.
  if (![...distinct].every((syllable) => letterOf(syllable) !== null)) return text;
  return text.replace(SYLLABLE, (syllable) => letterOf(syllable) ?? syllable);
}

/** Of a lead byte and one that follows it; null for other bytes, and for what stands in no text. */
function letterOf(syllable: string): string | null {
  const code = syllable.charCodeAt(0);
  const [lead, next] = [code >> 8, code & 0xff];
  if (lead < 0xc2 || (next & 0xc0) !== 0x80) return null;
  const letter = String.fromCharCode(((lead & 0x1f) << 6) | (next & 0x3f));
  return WRITTEN.test(letter) ? letter : null;
}
