/**
 * Owns the grammars of objects: properties in their order, optional ones that may be skipped, further names.
 * It must never let a further name repeat a listed one.
 */
import { codePoint, literal, type Rules } from './rules.js';

export interface Property {
  readonly name: string;
  readonly value: string;
  readonly required: boolean;
}

export interface Further {
  readonly value: string;
  readonly min: number;
  readonly max: number;
}

export function objectRule(
  rules: Rules,
  properties: readonly Property[],
  further: Further | null,
): string {
  if (properties.length === 0) {
    const pair = further ? `string ":" ws ${further.value}` : null;
    return rules.rule(`"{" ws ${pair && further ? listed(rules, pair, further) : ''} "}"`);
  }
  const extra = further
    ? rules.rule(`( "," ws ${otherName(rules, properties)} ":" ws ${further.value} )*`)
    : '';
  const firstExtra = further
    ? rules.rule(`( ${otherName(rules, properties)} ":" ws ${further.value} ${extra} )?`)
    : '';
  // Built from the end: what may follow a property that is there, and what may come when none was yet.
  let after = extra;
  let none = firstExtra;
  for (const { name, value, required } of [...properties].reverse()) {
    const pair = `${literal(JSON.stringify(name))} ":" ws ${value}`;
    const first = `${pair} ${after}`;
    none = required ? rules.rule(first) : rules.either([first, none]);
    after = rules.rule(required ? `"," ws ${pair} ${after}` : `( "," ws ${pair} )? ${after}`);
  }
  return rules.rule(`"{" ws ${none} ws "}"`);
}

/** How many names may come next at one place: optional ones may all be skipped, and a further name is none of them. */
export function namesAtOnce(properties: readonly Property[], open: boolean): number {
  if (open) return properties.length + 1;
  let [longest, run] = [1, 1];
  for (const { required } of properties) {
    run = required ? 1 : run + 1;
    longest = Math.max(longest, run);
  }
  return longest;
}

/** Items with commas between them. */
export function listed(
  rules: Rules,
  item: string,
  { min, max }: { readonly min: number; readonly max: number },
): string {
  if (max === 0) return '';
  const more = rules.repeat(`"," ws ${item}`, Math.max(0, min - 1), max - 1);
  const all = `${item} ${more} ws`;
  return min > 0 ? all : `( ${all} )?`;
}

interface Branch {
  readonly next: Map<string, Branch>;
  ends: boolean;
}

/** Any string but the listed names, by the tree of their letters. Escapes only where no name is left. */
function otherName(rules: Rules, properties: readonly Property[]): string {
  const root: Branch = { next: new Map(), ends: false };
  for (const { name } of properties) {
    let at = root;
    for (const character of JSON.stringify(name).slice(1, -1)) {
      const next = at.next.get(character) ?? { next: new Map(), ends: false };
      at.next.set(character, next);
      at = next;
    }
    at.ends = true;
  }
  return rules.rule(`"\\"" ${branchRule(rules, root)}`);
}

function branchRule(rules: Rules, { next, ends }: Branch): string {
  const parts = ends ? [] : ['"\\""'];
  const taken = [...next.keys()].map(codePoint).join('');
  parts.push(`[^"\\\\\\x00-\\x1F${taken}] char* "\\""`);
  for (const [character, branch] of next) {
    parts.push(`${literal(character)} ${branchRule(rules, branch)}`);
  }
  return rules.either(parts);
}
