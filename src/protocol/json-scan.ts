/**
 * Owns the look at a JSON text before it is parsed: how deep it is, how many values it has, whether a number may be infinite.
 * It must never build a value, nor trust that the text is JSON at all.
 */
import { limits } from '../limits/index.js';

export interface JsonExcess {
  readonly bound: 'depth' | 'values';
  /** Of the character with which the bound is exceeded. */
  readonly at: number;
}

export interface JsonScan {
  /** The first excess; nothing behind it was looked at. */
  readonly excess: JsonExcess | null;
  /** Arrays, objects and scalars. */
  readonly values: number;
  /** A number may be too large for a double. */
  readonly mayBeInfinite: boolean;
}

/** A number without exponent needs more digits than this to be infinite. */
const DIGITS_FINITE = 300;

/** One pass over what is outside of strings. */
export function scanJson(text: string, valuesMax: number = limits.jsonValuesMax): JsonScan {
  let depth = 0;
  let values = 1;
  let mayBeInfinite = false;
  let tokenStart = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = stringEnd(text, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > limits.jsonDepthMax) return excess('depth', at, values);
        if (!isEmpty(text, at) && ++values > valuesMax) return excess('values', at, values);
        tokenStart = at;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth--;
        break;
      case 0x2c: // ,
        if (++values > valuesMax) return excess('values', at, values);
        tokenStart = at;
        break;
      case 0x3a: // :
        tokenStart = at;
        break;
      case 0x45: // E
      case 0x65: // e, also of true and false: a digit before it makes an exponent
        mayBeInfinite ||= isDigit(text.charCodeAt(at - 1));
        break;
      default:
        mayBeInfinite ||= at - tokenStart > DIGITS_FINITE;
    }
  }
  return { excess: null, values, mayBeInfinite };
}

function excess(bound: JsonExcess['bound'], at: number, values: number): JsonScan {
  return { excess: { bound, at }, values, mayBeInfinite: false };
}

/** An array or object without anything in it. White space is skipped once for each opening bracket. */
function isEmpty(text: string, open: number): boolean {
  let at = open + 1;
  while (isSpace(text.charCodeAt(at))) at += 1;
  const code = text.charCodeAt(at);
  return code === 0x5d || code === 0x7d;
}

export function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** Position of the closing quote, or the end of the text. Jumps from quote to quote, since a string can be an image. */
export function stringEnd(text: string, open: number): number {
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
