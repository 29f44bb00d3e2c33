/**
 * Owns the ligatures that a document's encodings name by their letters, such as `f_f_i`: the library knows no such name.
 * It must never read what it does not look for: it finds encodings in the bytes of the document, those of packed objects too.
 */
import { inflateSync } from 'node:zlib';

/** By name of a font, without the mark of its subset: the letters of its codes. */
export type NamedLigatures = ReadonlyMap<string, ReadonlyMap<number, string>>;

/** Larger documents are not searched. */
const BYTES_MAX = 64 * 1024 * 1024;
/** Of all packed objects together. */
const PACKED_BYTES_MAX = 64 * 1024 * 1024;
const OBJECT_BYTES_MAX = 64 * 1024;
const LETTERS_MAX = 8;

export function namedLigatures(bytes: Uint8Array): NamedLigatures {
  const fonts = new Map<string, Map<number, string>>();
  if (bytes.length > BYTES_MAX) return fonts;
  const objects = objectsOf(bytes);
  for (const object of objects.values()) {
    const name = /\/BaseFont\s*\/([^\s/<>[\]()]+)/.exec(object)?.[1];
    if (name === undefined || !/\/Subtype\s*\/(?:MM)?Type1\b|\/Subtype\s*\/TrueType\b/.test(object))
      continue;
    const encoding = /\/Encoding\s+(\d+)\s+\d+\s+R/.exec(object)?.[1];
    const ligatures = ligaturesOf(
      encoding === undefined ? object : (objects.get(Number(encoding)) ?? ''),
    );
    const key = fontKey(name);
    fonts.set(key, agreed(fonts.get(key), ligatures));
  }
  return fonts;
}

/** A font that is cut to what is used of it has a mark of six letters, which the library leaves out. */
export function fontKey(name: string): string {
  return name.replace(/^[A-Z]{6}\+/, '');
}

/** Two fonts of one name may use a code for different letters: then it has none. */
function agreed(
  before: Map<number, string> | undefined,
  ligatures: Map<number, string>,
): Map<number, string> {
  if (before === undefined) return ligatures;
  for (const [code, letters] of ligatures) {
    before.set(code, (before.get(code) ?? letters) === letters ? letters : '');
  }
  return before;
}

/** `/Differences [27 /f_f_i /f_f 65 /A]`. */
function ligaturesOf(encoding: string): Map<number, string> {
  const found = new Map<number, string>();
  const differences = /\/Differences\s*\[([^\]]*)\]/.exec(encoding)?.[1] ?? '';
  let code = 0;
  for (const [, number, name] of differences.matchAll(/(\d+)|\/([^\s/[\]]+)/g)) {
    if (number !== undefined) {
      code = Number(number);
      continue;
    }
    const letters = lettersOf(name ?? '');
    if (letters !== '') found.set(code, letters);
    code += 1;
  }
  return found;
}

/** By the rule of Adobe's list of glyphs: what follows a full stop is the kind of glyph, and `_` parts letters. */
function lettersOf(name: string): string {
  const parts = (name.split('.', 1)[0] ?? '').split('_');
  if (parts.length < 2 || parts.length > LETTERS_MAX) return '';
  const letters = parts.map((part) => {
    if (/^[A-Za-z]$/.test(part)) return part;
    const code = /^(?:uni|u)([0-9A-F]{4})$/.exec(part)?.[1];
    return code === undefined ? '' : String.fromCharCode(Number.parseInt(code, 16));
  });
  return letters.includes('') ? '' : letters.join('');
}

/** Dictionaries by their numbers; of an object with several versions the last. */
function objectsOf(bytes: Uint8Array): Map<number, string> {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const objects = new Map<number, string>();
  let left = PACKED_BYTES_MAX;
  for (const match of text.matchAll(/\b(\d{1,9})\s+\d{1,5}\s+obj\b/g)) {
    const start = match.index + match[0].length;
    const end = /\b(?:endobj|stream|obj)\b/.exec(text.slice(start, start + OBJECT_BYTES_MAX));
    const object = text.slice(start, start + (end?.index ?? OBJECT_BYTES_MAX));
    if (/\/Type\s*\/ObjStm\b/.test(object)) {
      const packed = unpacked(bytes.subarray(start + object.length), left);
      left -= packed.length;
      for (const [number, each] of objectsWithin(object, packed)) objects.set(number, each);
    } else objects.set(Number(match[1]), object);
  }
  return objects;
}

function objectsWithin(dictionary: string, text: string): [number, string][] {
  const numberOf = (key: string) =>
    Number(new RegExp(`/${key}\\s+(\\d+)`).exec(dictionary)?.[1] ?? 0);
  const [count, first] = [numberOf('N'), numberOf('First')];
  const numbers = (text.slice(0, first).match(/\d+/g) ?? []).map(Number);
  return Array.from({ length: Math.min(count, numbers.length >> 1) }, (_, index) => {
    const [number = 0, start = 0, , end = text.length] = numbers.slice(index * 2, index * 2 + 4);
    return [number, text.slice(first + start, first + end)];
  });
}

/** What follows the word `stream`; empty for what is packed in another way, or is more than may be. */
function unpacked(stream: Uint8Array, bytesMax: number): string {
  if (bytesMax < 1) return '';
  try {
    const options = { maxOutputLength: bytesMax };
    return inflateSync(stream.subarray(stream.indexOf(0x0a) + 1), options).toString('latin1');
  } catch {
    return '';
  }
}
