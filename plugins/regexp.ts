/**
 * Owns the door to `@eslint-community/regexpp`: the text of a regular expression as a tree.
 * It must never run a regular expression.
 */
import { type AST, RegExpParser } from '@eslint-community/regexpp';

export type { AST };

const parser = new RegExpParser({ ecmaVersion: 2024 });

/** @throws Error that says where it cannot be read. */
export function parsedPattern(source: string, unicode = true): AST.Pattern {
  return parser.parsePattern(source, undefined, undefined, { unicode });
}
