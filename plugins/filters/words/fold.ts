/**
 * Owns the folding that makes spellings equal: compatibility forms, case, order of marks, blanks, invisible characters.
 * It must never look ahead further than a run of marks, so that a text may arrive in pieces.
 */

/** The role of a character at word boundaries. */
export const OTHER = 0;
export const WORD = 1;
/** Of a script that writes no blanks between words: every place is a bound. */
export const UNSPACED = 2;
/** Belongs to the character before it. */
export const MARK = 3;

export type CharacterKind = typeof OTHER | typeof WORD | typeof UNSPACED | typeof MARK;

export interface FoldedCharacter {
  readonly code: number;
  readonly kind: CharacterKind;
}

const SPACE = 0x20;
const ASCII_END = 0x80;
const CODES_REMEMBERED_MAX = 65_536;

const BLANK = /^[\s\u0085]$/u;
const INVISIBLE = /^[\p{Default_Ignorable_Code_Point}\u2060-\u2064]$/u;
const MARKS = /^\p{M}$/u;
const LETTER = /^[\p{L}\p{N}_]$/u;
const SCRIPTS =
  /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]$/u;

const remembered = new Map<number, readonly FoldedCharacter[]>();

/** The folded form of one code point: nothing, one character, or several. Every blank becomes one space. */
export function fold(code: number): readonly FoldedCharacter[] {
  const known = remembered.get(code);
  if (known !== undefined) return known;
  if (remembered.size >= CODES_REMEMBERED_MAX) remembered.clear();
  const folded = folding(String.fromCodePoint(code));
  remembered.set(code, folded);
  return folded;
}

function folding(letter: string): readonly FoldedCharacter[] {
  if (BLANK.test(letter)) return [{ code: SPACE, kind: OTHER }];
  if (INVISIBLE.test(letter)) return [];
  // Letter by letter: in a whole word the last sigma would become another one.
  const cased = [...letter.normalize('NFKD')].map((each) => each.toUpperCase().toLowerCase());
  return [...cased.join('').normalize('NFKD')].map((each) => ({
    code: each.codePointAt(0) as number,
    kind: kindOf(each),
  }));
}

function kindOf(letter: string): CharacterKind {
  if (MARKS.test(letter)) return MARK;
  if (SCRIPTS.test(letter)) return UNSPACED;
  return LETTER.test(letter) ? WORD : OTHER;
}

/** For ASCII alone, which most text is: the folded code, and its kind. */
export const asciiCode = new Uint8Array(ASCII_END);
export const asciiKind = new Uint8Array(ASCII_END);
for (let code = 0; code < ASCII_END; code += 1) {
  const [folded] = fold(code);
  asciiCode[code] = folded?.code ?? 0;
  asciiKind[code] = folded?.kind ?? OTHER;
}

/** The marks of one letter in canonical order. */
export function orderedMarks(marks: readonly number[]): readonly number[] {
  if (marks.length < 2) return marks;
  const text = String.fromCodePoint(...marks).normalize('NFD');
  return [...text].map((mark) => mark.codePointAt(0) as number);
}

/** A whole text, as a rule is written down: marks in order, runs of blanks one space. */
export function foldText(text: string): FoldedCharacter[] {
  const folded: FoldedCharacter[] = [];
  let marks: number[] = [];
  const flush = () => {
    for (const code of orderedMarks(marks)) folded.push({ code, kind: MARK });
    marks = [];
  };
  for (const letter of text) {
    for (const character of fold(letter.codePointAt(0) as number)) {
      if (character.kind === MARK) {
        marks.push(character.code);
        continue;
      }
      flush();
      if (character.code === SPACE && folded.at(-1)?.code === SPACE) continue;
      folded.push(character);
    }
  }
  flush();
  return folded;
}

/** Whether a rule that is bound to words may begin or end between these two. */
export function wordBound(before: CharacterKind, after: CharacterKind): boolean {
  if (after === MARK) return false;
  return !(before === WORD && after === WORD);
}

/** `\b`: between a character of a word and one that is none, and anywhere in unspaced scripts. */
export function wordEdge(before: CharacterKind, after: CharacterKind): boolean {
  if (after === MARK) return false;
  if (before === UNSPACED || after === UNSPACED) return true;
  return (before === WORD) !== (after === WORD);
}
