/**
 * Owns where text is cut for vocabularies that join across words: before a space, where no token reaches over it.
 * It must only cut where no token can span the place: ids never change.
 */

/** Stands for a space in the tokens of such vocabularies. */
export const SPACE_LETTER = '\u2581';
const SPACE = 0x20;
const LETTER = 0x2581;
const NEWLINE = 0x0a;

/** The characters (UTF-16 units) after which a space may belong to the same token. */
export function unitsBeforeSpace(tokens: Iterable<string>): ReadonlySet<number> {
  const units = new Set<number>();
  for (const token of tokens) {
    for (let at = token.indexOf(SPACE_LETTER, 1); at > 0; at = token.indexOf(SPACE_LETTER, at + 1))
      units.add(token.charCodeAt(at - 1));
  }
  if (units.has(LETTER)) units.add(SPACE);
  return units;
}

/** @param lines runs of newlines are pieces of their own, too. */
export function* cutAtSpaces(
  text: string,
  before: ReadonlySet<number>,
  lines: boolean,
): Generator<string, void> {
  let from = 0;
  let last = text.charCodeAt(0);
  for (let at = 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const isSpace = code === SPACE || code === LETTER;
    const isEnd = isSpace ? !before.has(last) : false;
    if (isEnd || (lines && (code === NEWLINE) !== (last === NEWLINE))) {
      yield text.slice(from, at);
      from = at;
    }
    last = code;
  }
  if (from < text.length) yield from === 0 ? text : text.slice(from);
}
