/**
 * Owns the way from the keywords of arrays to a rule: listed items, others, counts, items that occur once or must occur.
 * It must never put out an item that nothing fits.
 */
import { isDeepStrictEqual } from 'node:util';
import { arrayRule, containingRule, ONCE_MAX, onceRule } from './arrays.js';
import { type Compiled, type CompilerParts, widest } from './compiled.js';
import { NothingFits } from './cost.js';
import { count } from './keywords.js';
import type { Schema } from './read.js';

export class ArrayCompiler {
  constructor(private readonly parts: CompilerParts) {}

  compiled(schema: Schema): Compiled {
    const { places } = this.parts;
    const here = places.where;
    const { items, prefixItems = [] } = schema;
    const min = places.countable(count(schema.minItems, 0), 'minItems') ?? 0;
    const max = places.countable(count(schema.maxItems, Infinity), 'maxItems') ?? Infinity;
    if (min > max) throw places.nothing('minItems is above maxItems');
    const once = schema.uniqueItems === true && max > 1 ? this.#once(items, min, max) : null;
    const hasListed = Array.isArray(prefixItems) && prefixItems.length > 0;
    if (once !== null && !hasListed) return once;
    if (schema.uniqueItems === true && max > 1)
      places.leave('uniqueItems', `is counted for at most ${ONCE_MAX} values`);
    const wanted = (Array.isArray(prefixItems) ? prefixItems : []).slice(0, max);
    const fixed = wanted.map((each, i) => this.parts.compile(each, `${here}/prefixItems/${i}`));
    const isOpen =
      items !== false && (fixed.length === 0 || items !== undefined || min > fixed.length);
    const other =
      isOpen && max > fixed.length ? this.#other(items ?? true, min > fixed.length) : null;
    if (other === null && min > fixed.length)
      throw places.nothing('there are fewer items than minItems');
    if (schema.contains !== undefined)
      return this.#containing(schema, other, fixed.length, { min, max });
    const listed = fixed.map((each) => each.rule);
    const rule = arrayRule(this.parts.rules, { listed, other: other?.rule ?? null, min, max });
    const parts = other === null ? fixed : [other, ...fixed];
    return { rule, ...widest(parts), first: 1 };
  }

  /** Of items that nothing fits there are none. */
  #other(items: unknown, isNeeded: boolean): Compiled | null {
    try {
      return this.parts.compile(items, `${this.parts.places.where}/items`);
    } catch (cause) {
      if (cause instanceof NothingFits && !isNeeded) return null;
      throw cause;
    }
  }

  /** Values that are listed, each at most once; null where they are not, or are too many. */
  #once(items: unknown, min: number, max: number): Compiled | null {
    const schema = this.parts.look(items);
    const isFlag = isDeepStrictEqual(schema?.type, ['boolean']);
    const values = isFlag ? [true, false] : schema?.enum;
    if (!Array.isArray(values) || values.length > ONCE_MAX) return null;
    const fitting = values.filter((value) => this.parts.fits(value, { ...schema, enum: values }));
    if (fitting.length < min)
      throw this.parts.places.nothing('there are fewer values than minItems');
    const rule = onceRule(this.parts.rules, fitting, min, max);
    return { rule, ways: 1, width: fitting.length + 1, first: 1 };
  }

  #containing(
    schema: Schema,
    item: Compiled | null,
    listed: number,
    { min, max }: { readonly min: number; readonly max: number },
  ): Compiled {
    const { places } = this.parts;
    const others = count(schema.minContains, 1) !== 1 || 'maxContains' in schema;
    if (listed > 0 || min > 1 || max < Infinity || others || item === null) {
      places.leave('contains', 'is not counted beside other counts');
      const { contains: _, minContains: __, maxContains: ___, ...rest } = schema;
      return this.compiled(rest);
    }
    const { items = true } = schema;
    const needed = this.parts.compile(
      { allOf: [items, schema.contains] },
      `${places.where}/contains`,
    );
    const rule = containingRule(this.parts.rules, item.rule, needed.rule);
    return { rule, ways: item.ways + needed.ways, width: item.width + needed.width, first: 1 };
  }
}
