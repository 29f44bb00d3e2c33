/**
 * Owns the grammars of arrays: listed items, counts, items that occur once, items that must occur.
 * It must never compile a schema: its items come as rules.
 */
import type { Rules } from './rules.js';
import { valuesRule } from './values.js';

export interface ArrayShape {
  /** Rules of the items that are listed. */
  readonly listed: readonly string[];
  /** Rule of all others; null for none. */
  readonly other: string | null;
  readonly min: number;
  readonly max: number;
}

/** All listed items are put out, which is right whatever fewer the schema would allow. */
export function arrayRule(rules: Rules, { listed, other, min, max }: ArrayShape): string {
  if (max === 0 || (listed.length === 0 && other === null)) return rules.rule('"[" ws "]"');
  if (listed.length === 0) return rules.rule(`"[" ws ${items(rules, other ?? '', min, max)} "]"`);
  const shown = listed.slice(0, max);
  const left = { min: Math.max(0, min - shown.length), max: max - shown.length };
  const tail = other === null ? '' : rules.repeat(`"," ws ${other}`, left.min, left.max);
  return rules.rule(`"[" ws ${shown.join(' "," ws ')} ${tail} ws "]"`);
}

/** Items with commas between them. */
export function items(rules: Rules, item: string, min: number, max: number): string {
  if (max === 0) return '';
  const more = rules.repeat(`"," ws ${item}`, Math.max(0, min - 1), max - 1);
  const all = `${item} ${more} ws`;
  return min > 0 ? all : `( ${all} )?`;
}

/** Any items, with one of the second kind among them. */
export function containingRule(rules: Rules, item: string, needed: string): string {
  return rules.rule(`"[" ws ( ${item} "," ws )* ${needed} ( "," ws ${item} )* ws "]"`);
}

/** The subsets of more values are too many. */
export const ONCE_MAX = 8;

/** Values in any order, each at most once: one rule for each set of values that is left. */
export function onceRule(
  rules: Rules,
  values: readonly unknown[],
  min: number,
  max: number,
): string {
  const texts = values.map((value) => valuesRule(rules, [JSON.stringify(value)]).rule);
  const made = new Map<number, string>();
  const after = (left: number): string => {
    const known = made.get(left);
    if (known !== undefined) return known;
    const used = values.length - bits(left);
    const parts = used >= min ? ['""'] : [];
    if (used < max) parts.push(...next(left).map((each) => `"," ws ${each}`));
    const rule = rules.rule(parts.join(' | '));
    made.set(left, rule);
    return rule;
  };
  const next = (left: number): string[] =>
    texts.flatMap((text, i) => (left & (1 << i) ? [`${text} ${after(left & ~(1 << i))}`] : []));
  const first = max > 0 ? next((1 << values.length) - 1) : [];
  if (min === 0) first.push('""');
  return rules.rule(`"[" ws ( ${first.join(' | ')} ) ws "]"`);
}

function bits(set: number): number {
  let count = 0;
  for (let left = set; left > 0; left &= left - 1) count++;
  return count;
}
