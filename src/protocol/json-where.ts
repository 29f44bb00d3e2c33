/**
 * Owns the name of the field that a position of a JSON text lies in, for an error message.
 * It must never be on the path of a text that is accepted, nor parse more of it than the keys it names.
 */
import type { FieldPath } from './field.js';
import { isSpace, stringEnd } from './json-scan.js';

/** One open array or object: which item is being read, or where the last key stands in the text. */
interface Level {
  readonly isArray: boolean;
  index: number;
  key: readonly [start: number, end: number];
}

/**
 * The path of the value that begins after the comma or the opening bracket at `position`.
 * @param text JSON, at least up to there.
 */
export function fieldPathAt(text: string, position: number): FieldPath {
  const levels: Level[] = [];
  let string: Level['key'] = [0, 0];
  for (let at = 0; at <= position; at += 1) {
    const level = levels.at(-1);
    switch (text[at]) {
      case '"':
        string = [at, stringEnd(text, at)];
        at = string[1];
        break;
      case '[':
      case '{':
        levels.push({ isArray: text[at] === '[', index: 0, key: [0, 0] });
        break;
      case ']':
      case '}':
        levels.pop();
        break;
      case ':':
        if (level !== undefined) level.key = string;
        break;
      case ',':
        if (level !== undefined) level.index += 1;
        break;
    }
  }
  const last = levels.at(-1);
  // The key of that value comes after the position.
  if (last !== undefined && !last.isArray) last.key = keyAfter(text, position + 1);
  return levels.map(({ isArray, index, key }) => (isArray ? index : keyText(text, key)));
}

function keyAfter(text: string, from: number): Level['key'] {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at += 1;
  return text[at] === '"' ? [at, stringEnd(text, at)] : [at, at];
}

/** Keys are shown shortened: a long one need not be read to its end. */
const KEY_LENGTH_MAX = 1_024;

function keyText(text: string, [start, end]: Level['key']): string {
  const raw = text.slice(start, Math.min(end + 1, start + KEY_LENGTH_MAX));
  try {
    return String(JSON.parse(raw));
  } catch {
    return raw.slice(1);
  }
}
