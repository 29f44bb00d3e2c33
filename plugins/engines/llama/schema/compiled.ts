/**
 * Owns what a compiled schema is, and what its parts together cost to follow.
 * It must never compile anything.
 */
import type { Places } from './place.js';
import type { Schema } from './read.js';
import type { Rules } from './rules.js';

export interface Compiled {
  readonly rule: string;
  /** How many readings of one text may have to be followed at once. */
  readonly ways: number;
  /** How many alternatives may have to be tried for the next character, at most. */
  readonly width: number;
  /** The same for the first character. */
  readonly first: number;
}

/** What the compilers of objects and arrays have from the one of schemas. */
export interface CompilerParts {
  readonly rules: Rules;
  readonly places: Places;
  /** @param where JSON pointer. */
  compile(schema: unknown, where: string): Compiled;
  /** A schema with what it refers to and joins; null where that is not known. */
  look(schema: unknown): Schema | null;
  /** Whether a value fits keywords beside the list that it is in. */
  fits(value: unknown, others: Schema): boolean;
}

/** What has one way to be read and nothing to choose from. */
export function one(rule: string): Compiled {
  return { rule, ways: 1, width: 1, first: 1 };
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

export function most(numbers: readonly number[]): number {
  return numbers.reduce((highest, each) => Math.max(highest, each), 1);
}

/** For parts of which one is read at a time. */
export function widest(parts: readonly Compiled[]): { ways: number; width: number } {
  return {
    ways: most(parts.map(({ ways }) => ways)),
    width: most(parts.map(({ width }) => width)),
  };
}
