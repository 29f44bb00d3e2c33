/**
 * Owns where text is cut before encoding, so that no encoder gets a run that is too long for it.
 * It must only cut where a piece ends for every pattern, or where the pattern itself ended one: ids never change.
 */
import { limits } from 'preface/plugin';
import type { PiecePattern } from './patterns.js';

export interface Stretch {
  /** Whole pieces, none longer than the bound; or one piece that is longer. */
  readonly text: string;
  readonly isLong: boolean;
}

/** Gives `text` in order. Looks at a few characters in each stretch of the bound's length only. */
export function* cutText(text: string, pattern: PiecePattern): Generator<Stretch, void> {
  const { pieceLengthMax, encodeChunkLengthMax } = limits;
  let from = 0;
  let sure = 0;
  while (text.length - sure > pieceLengthMax) {
    const near = lastSureEnd(text, sure + pieceLengthMax, sure);
    const isCrowded = near === sure;
    if (sure > from && (isCrowded || near - from > encodeChunkLengthMax)) {
      yield { text: text.slice(from, sure), isLong: false };
      from = sure;
    }
    if (isCrowded) {
      from = nextSureEnd(text, sure + pieceLengthMax + 1);
      yield* cutPieces(text, sure, from, pattern);
    }
    sure = isCrowded ? from : near;
  }
  if (text.length > from) yield { text: from === 0 ? text : text.slice(from), isLong: false };
}

/** The last one in `(floor, at]`, or `floor`. */
function lastSureEnd(text: string, at: number, floor: number): number {
  let end = at;
  while (end > floor && !isSureEnd(text.charCodeAt(end - 1), text.charCodeAt(end))) end -= 1;
  return end;
}

function nextSureEnd(text: string, at: number): number {
  let end = at;
  while (end < text.length && !isSureEnd(text.charCodeAt(end - 1), text.charCodeAt(end))) end += 1;
  return Math.min(end, text.length);
}

/** Without sure ends in reach the pattern decides; its sticky matches are the pieces. */
function* cutPieces(
  text: string,
  start: number,
  end: number,
  pattern: PiecePattern,
): Generator<Stretch, void> {
  let from = start;
  let at = start;
  while (at < end) {
    const next = pieceEnd(text, at, end, pattern);
    const isLong = next - at > limits.pieceLengthMax;
    if ((isLong || next - from > limits.encodeChunkLengthMax) && at > from) {
      yield { text: text.slice(from, at), isLong: false };
      from = at;
    }
    if (isLong) {
      yield { text: text.slice(at, next), isLong: true };
      from = next;
    }
    at = next;
  }
  if (end > from) yield { text: text.slice(from, end), isLong: false };
}

/** No match reaches beyond a sure end, so one that is near bounds what the expression has to remember. */
function pieceEnd(text: string, at: number, end: number, { script, runs }: PiecePattern): number {
  if (end - at > limits.encodeChunkLengthMax) return Math.max(runs.end(text, at), at + 1);
  script.lastIndex = at;
  return script.test(text) ? script.lastIndex : at + 1;
}

/**
 * In every known pattern a piece ends between an ASCII letter or digit and another ASCII character but the
 * apostrophe, and before a blank that no white space precedes. Where in doubt: no.
 */
function isSureEnd(before: number, code: number): boolean {
  if (code === 0x20) return before < 128 ? before > 0x20 : !isWideSpace(before);
  return code < 128 && code !== APOSTROPHE && isAlphanumeric(before) && !isAlphanumeric(code);
}

const APOSTROPHE = 0x27;
const ALPHANUMERIC = Uint8Array.from({ length: 128 }, (_, code) =>
  /[0-9A-Za-z]/.test(String.fromCharCode(code)) ? 1 : 0,
);

function isAlphanumeric(code: number): boolean {
  return ALPHANUMERIC[code] === 1;
}

/** Generous on purpose: a surplus "yes" only costs a sure end. */
function isWideSpace(code: number): boolean {
  return code <= 0xa0 || code === 0x1680 || (code >= 0x2000 && code <= 0x206f) || code === 0x3000;
}
