/**
 * Owns the way from the bytes of a body to a JSON value that every later step can trust: bounded in depth, finite
 * in its numbers, well formed in its texts. It must never look at what the value means.
 *
 * Content-Type is not asked: many clients send none or a form's, and only JSON can be meant. A byte order mark is
 * skipped. Of equal keys in one object the last wins. `__proto__` is a key like any other.
 */
import { isUtf8 } from 'node:buffer';
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { fieldName, quoted } from './field.js';
import { jsonErrorPosition } from './json-position.js';

const LONE_SURROGATE = /\p{Surrogate}/u;
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;
/** A number without exponent needs more digits than this to be infinite. */
const DIGITS_FINITE = 300;

/** @throws ApiError that says what is wrong and where. */
export function parseJson(body: Buffer): unknown {
  if (!isUtf8(body)) throw invalid('the body is not valid UTF-8');
  const text = decode(body);
  const suspect = scan(text);
  const value = parse(text);
  if (suspect || (text.includes('\\u') && SURROGATE_ESCAPE.test(text))) refuseFlaw(value);
  return value;
}

function decode(body: Buffer): string {
  const text = body.toString('utf8');
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

/**
 * One pass over what is outside of strings, before the parser may build a million arrays inside each other.
 * @returns true when a number may be too large for a double.
 */
function scan(text: string): boolean {
  let depth = 0;
  let suspect = false;
  let tokenStart = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = stringEnd(text, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > limits.jsonDepthMax) throw tooDeep(at);
        tokenStart = at;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
      case 0x2c: // ,
      case 0x3a: // :
        tokenStart = at;
        break;
      case 0x45: // E
      case 0x65: // e, also of true and false: a digit before it makes an exponent
        suspect ||= isDigit(text.charCodeAt(at - 1));
        break;
      default:
        suspect ||= at - tokenStart > DIGITS_FINITE;
    }
  }
  return suspect;
}

/** Position of the closing quote, or the end of the text. Jumps from quote to quote, since a string can be an image. */
function stringEnd(text: string, open: number): number {
  let close = text.indexOf('"', open + 1);
  while (close !== -1) {
    let backslashes = 0;
    while (text.charCodeAt(close - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return close;
    close = text.indexOf('"', close + 1);
  }
  return text.length;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

function tooDeep(position: number) {
  return invalid(
    `the JSON is nested deeper than ${limits.jsonDepthMax} levels, at position ${position}`,
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed(text);
  }
}

function malformed(text: string) {
  const position = jsonErrorPosition(text);
  if (text.trim() === '') return invalid('the body is empty, a JSON object is required');
  if (position >= text.length) return invalid(`the JSON ends too early, at position ${position}`);
  const character = String.fromCodePoint(text.codePointAt(position) ?? 0);
  return invalid(
    `the body is not valid JSON: unexpected ${quoted(character)} at position ${position}`,
  );
}

interface Flaw {
  readonly text: string;
  /** Filled from the inside out, since most values have no flaw and need no path. */
  readonly path: (string | number)[];
}

/** Recursion is bounded: the depth was checked on the text. */
function flawOf(value: unknown): Flaw | null {
  if (typeof value === 'string') return flawOfText(value, 'has');
  if (typeof value === 'number') {
    const text = 'is a number too large for a double';
    return Number.isFinite(value) ? null : { text, path: [] };
  }
  if (typeof value !== 'object' || value === null) return null;
  const entries = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [key, item] of entries) {
    const keyFlaw = typeof key === 'string' ? flawOfText(key, 'has a key with') : null;
    const flaw = keyFlaw ?? flawOf(item);
    if (flaw === null) continue;
    flaw.path.unshift(key);
    return flaw;
  }
  return null;
}

function flawOfText(text: string, has: string): Flaw | null {
  if (!LONE_SURROGATE.test(text)) return null;
  return { text: `${has} a lone surrogate, which is no Unicode text`, path: [] };
}

function refuseFlaw(value: unknown): void {
  const flaw = flawOf(value);
  if (flaw === null) return;
  const name = fieldName(flaw.path);
  throw invalid(`${name} ${flaw.text}`, name);
}
