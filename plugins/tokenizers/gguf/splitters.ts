/**
 * Owns the cutting of text by a row of patterns: each one cuts the pieces of the one before it.
 * It must give the pieces of the patterns as they are published, also of text that is made to hurt them.
 */
import { RunMatcher } from '../shared/run-matcher.js';

/** Gives the end of the match that begins at a place, or -1. */
export interface Splitter {
  endAt(text: string, at: number): number;
}

/** A match is a piece, and so is what lies between two matches. */
export function* splitText(
  text: string,
  splitters: readonly Splitter[],
  level = 0,
): Generator<string, void> {
  const splitter = splitters[level];
  if (splitter === undefined) {
    yield text;
    return;
  }
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const end = splitter.endAt(text, at);
    if (end <= at) {
      at += (text.codePointAt(at) ?? 0) > 0xff_ff ? 2 : 1;
      continue;
    }
    if (at > from) yield* splitText(text.slice(from, at), splitters, level + 1);
    yield* splitText(text.slice(at, end), splitters, level + 1);
    from = end;
    at = end;
  }
  if (from < text.length) yield* splitText(text.slice(from), splitters, level + 1);
}

/** @param source in JavaScript's `v` dialect. */
export function patternSplitter(source: string): Splitter {
  const pattern = new RegExp(source, 'vy');
  let runs: RunMatcher | null = null;
  return {
    endAt(text, at) {
      try {
        pattern.lastIndex = at;
        return pattern.test(text) ? pattern.lastIndex : -1;
      } catch {
        // The engine's stack overflows on a run of millions.
        runs ??= new RunMatcher(source);
        return runs.end(text, at);
      }
    },
  };
}

/** Digits in groups of three, counted from the end of their run. */
export function digitGroups(): Splitter {
  let run = { text: '', next: -1, left: 0 };
  return {
    endAt(text, at) {
      if (at !== run.next || text !== run.text) run = { text, next: at, left: digitsAt(text, at) };
      if (run.left === 0) return -1;
      const count = run.left % 3 || 3;
      for (let digit = 0; digit < count; digit += 1) run.next = digitEnd(text, run.next);
      run.left -= count;
      return run.next;
    },
  };
}

const DIGIT = /\p{N}/uy;

function digitsAt(text: string, at: number): number {
  let count = 0;
  for (let end = digitEnd(text, at); end > 0; end = digitEnd(text, end)) count += 1;
  return count;
}

function digitEnd(text: string, at: number): number {
  DIGIT.lastIndex = at;
  return DIGIT.test(text) ? DIGIT.lastIndex : -1;
}
