/**
 * Owns the question whether a text can be one that somebody wrote: fonts without a map and turned scans give letters, too.
 * It must never need to know the language.
 */

/** Scripts that texts are written in. Letters of others come from a wrong table far more often than from an author. */
const scripts = {
  latin: /[\p{Script=Latin}]/u,
  greek: /[\p{Script=Greek}]/u,
  cyrillic: /[\p{Script=Cyrillic}]/u,
  // With the marks that these scripts share.
  east: /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}\uff00-\uffef]/u,
  arabic: /[\p{Script=Arabic}\p{Script=Syriac}]/u,
  hebrew: /[\p{Script=Hebrew}]/u,
  thai: /[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u,
  indic:
    /[\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}]/u,
  caucasian: /[\p{Script=Georgian}\p{Script=Armenian}]/u,
  ethiopic: /[\p{Script=Ethiopic}]/u,
} as const;

type Script = keyof typeof scripts;

/** Letters of living orthographies; between them lie those of phonetics. */
const LATIN_WORD = /^[A-Za-zÀ-öø-žƏƠơƯưȘ-ț\u1e80-\u1ef9ﬀ-ﬆ'’·-]+$/u;
/** All small, all large, or small after one large letter; names like McCoy and units like kWh are few. */
const CASE = /^(?:\p{Lu}?[\p{Ll}'’·-]+|[\p{Lu}'’·-]+s?|\p{Lu}\p{Ll}+-\p{Lu}\p{Ll}+)$/u;
const VOWEL = /[aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿāăąēĕėęěĩīĭįıōŏőœũūŭůűųəơưạ-ỹ]/iu;
const NUMBER = /^[\p{Sc}#№±~<>≤≥]?[-+−–]?\d[\d.,:/%°×x–−-]*(?:%|\p{L}{1,4})?$/u;
/** `A4`, `DB2`. */
const CODE = /^[A-Za-z]{1,8}\d+$/;
/** Without a vowel: a unit, an abbreviation. */
const SHORT = 3;
const WORD_MAX = 40;
const EDGES = /^[\p{P}\p{S}]+|[\p{P}\p{S}]+$/gu;
const BETWEEN = /[\s\u00a0/|…—–·•:;,.()@_=&+[\]]+/u;
/** Signs within a word that no author puts there. */
const SIGNS = /[\p{P}\p{S}]/gu;

/** Share of the text, 0 to 1, that is no number and no word of a script that it is written in. */
export function strangeShare(text: string): number {
  const main = mainScript(text);
  let good = 0;
  let bad = 0;
  for (const part of text.split(/\s+/)) {
    for (const piece of part.split(BETWEEN)) {
      const word = piece.replace(EDGES, '');
      if (word === '') continue;
      if (isWord(word, main)) good += word.length;
      else bad += word.length;
    }
    // Signs at the edges are punctuation; a word that is made of them is none.
    const signs = part.match(SIGNS)?.length ?? 0;
    if (signs > 2 && signs * 3 > part.length && /\p{L}/u.test(part)) bad += signs;
  }
  return good + bad === 0 ? 0 : bad / (good + bad);
}

function isWord(word: string, main: Script): boolean {
  if (word.length > WORD_MAX && main !== 'east' && main !== 'thai') return false;
  if (NUMBER.test(word)) return true;
  if (LATIN_WORD.test(word)) {
    return CASE.test(word) && (word.length <= SHORT || VOWEL.test(word));
  }
  if (CODE.test(word)) return true;
  if (main === 'latin') return false;
  const letters = word.replace(/[\p{M}\p{N}\p{P}\p{S}]/gu, '');
  return [...letters].every((letter) => /[A-Za-z]/.test(letter) || scripts[main].test(letter));
}

function mainScript(text: string): Script {
  let main: Script = 'latin';
  let most = 0;
  for (const [name, pattern] of Object.entries(scripts)) {
    if (name === 'latin') continue;
    const count = text.match(new RegExp(pattern, 'gu'))?.length ?? 0;
    if (count > most) [main, most] = [name as Script, count];
  }
  return main;
}
