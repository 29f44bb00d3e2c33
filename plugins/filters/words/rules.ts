/**
 * Owns the file of terms and patterns: one rule a line, each named by its line.
 * It must never accept a rule that it cannot apply fully, or skip one silently.
 */
import { limits } from 'preface/plugin';
import { type FoldedCharacter, OTHER } from './fold.js';
import { PatternFault, Patterns } from './pattern.js';
import { TermTree } from './terms.js';

export interface WordRules {
  readonly terms: TermTree;
  readonly patterns: Patterns;
}

/**
 * A line is a term, or a pattern between slashes; empty ones and those that begin with `#` say nothing. A term that
 * begins with `#`, a slash or a backslash has a backslash before it.
 * @throws Error that names file, line and what is allowed.
 */
export function readRules(text: string, file: string): WordRules {
  const terms = new TermTree();
  const { filterRuleLengthMax: lengthMax, filterStatesMax: statesMax } = limits;
  const patterns = new Patterns({ lengthMax, statesMax });
  let count = 0;
  for (const [at, raw] of text
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    count += 1;
    const fault = add({ terms, patterns }, line, `line ${at + 1}`);
    if (fault !== null) throw new Error(`${file}, line ${at + 1}: ${fault}`);
  }
  if (count === 0) throw new Error(`${file} has no term and no pattern, at least one is needed`);
  if (count > limits.filterRulesMax) {
    throw new Error(`${file} has ${count} rules, at most ${limits.filterRulesMax} are allowed`);
  }
  return { terms, patterns };
}

function add({ terms, patterns }: WordRules, line: string, rule: string): string | null {
  const pattern = /^\/(.*)\/$/u.exec(line)?.[1];
  if (pattern === undefined) {
    const wrong = terms.add(line.replace(/^\\/, ''), rule, limits.filterRuleLengthMax);
    return wrong === null ? null : `the term ${wrong}`;
  }
  try {
    patterns.add(pattern, rule);
    return null;
  } catch (cause) {
    if (cause instanceof PatternFault) return `the pattern ${cause.message}`;
    throw cause;
  }
}

/** Stands before the first and after the last character of a text. */
export const NOTHING: FoldedCharacter = { code: -1, kind: OTHER };
