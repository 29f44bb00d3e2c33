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

/** Names that are not listed: the rules of a whole pair each. */
export interface Further {
  readonly pair: string;
}

export interface PropertyCounts {
  readonly min: number;
  readonly max: number;
}

export function objectRule(
  rules: Rules,
  properties: readonly Property[],
  further: Further | null,
  counts: PropertyCounts,
): string {
  if (properties.length === 0) {
    if (further === null) return rules.rule('"{" ws "}"');
    return rules.rule(`"{" ws ${pairs(rules, further.pair, counts)} "}"`);
  }
  const needed = properties.filter(({ required }) => required).length;
  const most = further === null ? properties.length : Number.POSITIVE_INFINITY;
  const isFree = counts.min <= needed && counts.max >= most;
  const body = isFree
    ? freeBody(rules, properties, further)
    : countedBody(rules, properties, further, counts);
  return rules.rule(`"{" ws ${body} ws "}"`);
}

function freeBody(rules: Rules, properties: readonly Property[], further: Further | null): string {
  const extra = further === null ? '' : rules.rule(`( "," ws ${further.pair} )*`);
  const firstExtra = further === null ? '' : rules.rule(`( ${further.pair} ${extra} )?`);
  // Built from the end: what may follow a property that is there, and what may come when none was yet.
  let after = extra;
  let none = firstExtra;
  for (const property of [...properties].reverse()) {
    const pair = pairOf(property);
    const first = `${pair} ${after}`;
    none = property.required ? rules.rule(first) : rules.either([first, none]);
    after = rules.rule(
      property.required ? `"," ws ${pair} ${after}` : `( "," ws ${pair} )? ${after}`,
    );
  }
  return none;
}

/** The same, with a rule for each number of properties that are there already. */
function countedBody(
  rules: Rules,
  properties: readonly Property[],
  further: Further | null,
  { min, max }: PropertyCounts,
): string {
  const made = new Map<string, string | null>();
  const from = (at: number, used: number): string | null => {
    const key = `${at} ${Math.min(used, max + 1)}`;
    const known = made.get(key);
    if (known !== undefined) return known;
    const rule = bodyFrom(at, used);
    made.set(key, rule);
    return rule;
  };
  const comma = (used: number) => (used > 0 ? '"," ws ' : '');
  const bodyFrom = (at: number, used: number): string | null => {
    rules.cost.spend();
    if (used > max) return null;
    const property = properties[at];
    if (property === undefined) return extras(used);
    const rest = from(at + 1, used + 1);
    const taken = rest === null ? [] : [`${comma(used)}${pairOf(property)} ${rest}`];
    const skipped = property.required ? null : from(at + 1, used);
    const parts = skipped === null ? taken : [...taken, skipped];
    return parts.length === 0 ? null : rules.either(parts);
  };
  const extras = (used: number): string | null => {
    if (further === null) return used >= min ? '""' : null;
    const least = Math.max(0, min - used);
    if (used > 0) return rules.rule(rules.repeat(`"," ws ${further.pair}`, least, max - used));
    return rules.rule(pairs(rules, further.pair, { min: least, max }));
  };
  return from(0, 0) ?? '""';
}

function pairOf({ name, value }: Property): string {
  return `${literal(JSON.stringify(name))} ":" ws ${value}`;
}

function pairs(rules: Rules, pair: string, { min, max }: PropertyCounts): string {
  if (max === 0) return '';
  const more = rules.repeat(`"," ws ${pair}`, Math.max(0, min - 1), max - 1);
  const all = `${pair} ${more} ws`;
  return min > 0 ? all : `( ${all} )?`;
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

interface Branch {
  readonly next: Map<string, Branch>;
  ends: boolean;
}

/** Any string but the listed names, by the tree of their letters. Escapes only where no name is left. */
export function otherName(rules: Rules, names: readonly string[]): string {
  if (names.length === 0) return 'string';
  const root: Branch = { next: new Map(), ends: false };
  for (const name of names) {
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
