/**
 * Owns the way from a constraint to one grammar: a value, calls, or one of both.
 * It must never let a loose schema fail: what costs too much is enforced less deeply.
 */
import type { CallsRule, Constraint, SchemaRule } from 'preface/plugin';
import { Compiler } from './compile.js';
import type { Compiled } from './compiled.js';
import { Cost, NothingFits, SchemaError, TooDear } from './cost.js';
import { Places } from './place.js';
import { codePoint, literal, Rules } from './rules.js';

export interface SchemaGrammar {
  readonly text: string;
  /** Alternatives that one token may have to be tried against: what a step of the grammar costs. */
  readonly width: number;
  /** Places of the keywords that are left to the model. */
  readonly left: readonly string[];
}

/** How deep loose schemas are enforced, in turn, until the grammar is small enough. */
const DEPTHS = [Number.POSITIVE_INFINITY, 6, 3, 0] as const;

/** @param depth how deep loose schemas are enforced at most. @throws SchemaError for a strict schema. */
export function constraintGrammar(
  constraint: Constraint,
  depth: number = DEPTHS[0],
): SchemaGrammar {
  for (const each of DEPTHS) {
    if (each > depth) continue;
    try {
      return new ConstraintWriter(each).grammar(constraint);
    } catch (cause) {
      // A strict schema is enforced as a whole, whatever it costs.
      if (each === 0 || !(cause instanceof TooDear)) throw cause;
    }
  }
  return new ConstraintWriter(0).grammar(constraint);
}

/** The grammar of one schema. */
export function schemaGrammar(schema: string | null, strict = true): SchemaGrammar {
  return constraintGrammar({ value: { schema, strict, field: 'schema' }, calls: null });
}

/** Whether the output is free until a call is opened. */
export function isFree({ value, calls }: Pick<Constraint, 'value' | 'calls'>): boolean {
  return value === null && calls !== null && !calls.opened;
}

/** How much of the mark the text ends with, after so much of it and one more character. */
function matched(marks: readonly string[], at: number, next: string): number {
  const text = [...marks.slice(0, at), next];
  for (let length = at + 1; length > 0; length--)
    if (text.slice(-length).join('') === marks.slice(0, length).join('')) return length;
  return 0;
}

class ConstraintWriter {
  readonly #cost = new Cost();
  readonly #rules = new Rules(this.#cost);
  readonly #left: string[] = [];

  constructor(private readonly depth: number) {}

  grammar({ value, calls, thoughts }: Constraint): SchemaGrammar {
    const roots: string[] = [];
    const parts: Compiled[] = [];
    if (calls !== null) {
      const { rule, compiled } = this.#calls(calls);
      const isFirst = value !== null && !calls.opened;
      roots.push(
        isFirst ? `${literal(calls.open)} ws ${rule}` : calls.opened ? rule : `ws ${rule}`,
      );
      parts.push(...compiled);
    }
    if (value !== null) {
      const compiled = this.#value(value, false);
      roots.push(compiled.rule);
      parts.push(compiled);
    }
    const width = Math.max(...parts.map((part) => part.width), calls?.tools.length ?? 1);
    const root = roots.join(' | ');
    // Free output thinks without a grammar.
    const thinks = thoughts !== undefined && !isFree({ value, calls });
    const text = thinks ? `${this.#thoughts(thoughts)} ( ${root} )` : root;
    return { text: this.#rules.text(text), width, left: this.#left };
  }

  /** Any text up to the closing mark, and the space behind it. */
  #thoughts({ open, close, opened }: NonNullable<Constraint['thoughts']>): string {
    const rules = this.#rules;
    const marks = [...close];
    const states = marks.map(() => rules.reserve());
    for (const at of marks.keys()) {
      const known = [...new Set(marks.slice(0, at + 1))];
      const steps = known.map(
        (each) => `${literal(each)} ${states[matched(marks, at, each)] ?? '""'}`,
      );
      const others = known.map(codePoint).join('');
      rules.define(states[at] ?? '', [...steps, `[^${others}] ${states[0]}`].join(' | '));
    }
    const thoughts = `${states[0]} space`;
    rules.define('space', '[ \\n\\r\\t]*');
    return opened ? thoughts : `( ${literal(open)} ${thoughts} )?`;
  }

  /** The name tells the calls apart, so only the rest of one is followed. */
  #calls({ tools, open, close, many }: CallsRule): { rule: string; compiled: Compiled[] } {
    const rules = this.#rules;
    const compiled = tools.map(({ input }) => this.#value(input, true));
    const bodies = tools.map(
      ({ name }, i) =>
        `${literal(JSON.stringify(name))} "," ws "\\"arguments\\"" ":" ws ${compiled[i]?.rule} ws "}"`,
    );
    const call = rules.rule(`"{" ws "\\"name\\"" ":" ws ${rules.either(bodies)}`);
    if (!many) return { rule: call, compiled };
    const next = `ws ${literal(close)} ws ${literal(open)} ws ${call}`;
    return { rule: `${call} ( ${next} )* ( ws ${literal(close)} )?`, compiled };
  }

  #value(rule: SchemaRule, isInput: boolean): Compiled {
    const any = { rule: 'object', ways: 1, width: 1, first: 1 };
    if (rule.schema === null || (this.depth === 0 && !rule.strict)) return this.#loose(rule, any);
    const places = new Places(rule, this.#cost, this.#left);
    const schema: unknown = JSON.parse(rule.schema);
    const depth = rule.strict ? Number.POSITIVE_INFINITY : this.depth;
    try {
      return new Compiler(this.#rules, places, schema, depth).root(isInput);
    } catch (cause) {
      const isLoose = !rule.strict && cause instanceof SchemaError && !(cause instanceof TooDear);
      if (!isLoose) throw cause;
      return this.#loose(
        rule,
        cause instanceof NothingFits && !isInput ? { ...any, rule: 'any' } : any,
      );
    }
  }

  #loose({ schema, field }: SchemaRule, compiled: Compiled): Compiled {
    if (schema !== null) this.#left.push(field);
    return compiled;
  }
}
