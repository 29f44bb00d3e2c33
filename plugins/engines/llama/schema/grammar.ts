/**
 * Owns the way from a JSON schema to a grammar whose every text follows the schema.
 * It must never drop a keyword that decides something: what it cannot follow it refuses by name.
 */
import { limits } from 'preface/plugin';
import { Cost, SchemaError } from './cost.js';
import { formats } from './formats.js';
import {
  bounds,
  count,
  hasType,
  type JsonType,
  KNOWN,
  overlap,
  propertyCounts,
  refuse,
  sortedTexts,
  typesOf,
} from './keywords.js';
import { isSchema, keywords, merge, type Schema } from './merge.js';
import { numberRule } from './numbers.js';
import { listed, namesAtOnce, objectRule, type Property } from './objects.js';
import { Rules } from './rules.js';
import { startOf } from './start.js';
import { valuesRule } from './values.js';

interface Compiled {
  readonly rule: string;
  /** How many readings of one text may have to be followed at once. */
  readonly ways: number;
  /** How many alternatives may have to be tried for the next character, at most. */
  readonly width: number;
  /** The same for the first character. */
  readonly first: number;
}

export interface SchemaGrammar {
  readonly text: string;
  /** Alternatives that one token may have to be tried against: what a step of the grammar costs. */
  readonly width: number;
}

interface Reference {
  readonly rule: string;
  compiled: Compiled | null;
  recursive: boolean;
}

/** References, alternatives and joined schemas count as steps too. */
const DEPTH_MAX = 4 * limits.schemaDepthMax;

/** @param schema JSON text, or null for any object. @throws SchemaError with `code: 'unsupported_schema'`. */
export function schemaGrammar(schema: string | null, leadingSpace: boolean): SchemaGrammar {
  const rules = new Rules(new Cost());
  const { rule, width } =
    schema === null ? one('object') : new Compiler(rules, JSON.parse(schema)).root();
  return { text: rules.text(leadingSpace ? `ws ${rule}` : rule), width };
}

/** What has one way to be read and nothing to choose from. */
function one(rule: string): Compiled {
  return { rule, ways: 1, width: 1, first: 1 };
}

class Compiler {
  readonly #references = new Map<string, Reference>();
  #depth = 0;

  constructor(
    private readonly rules: Rules,
    private readonly document: unknown,
  ) {}

  root(): Compiled {
    return this.#compile(this.document, '#');
  }

  #compile(value: unknown, where: string): Compiled {
    if (++this.#depth > DEPTH_MAX)
      throw new SchemaError('the schema is too deep, or refers to itself beside other keywords');
    const { cost } = this.rules;
    const outer = cost.where;
    cost.where = where;
    cost.spend(isSchema(value) ? 1 + Object.keys(value).length : 1);
    const compiled = this.#compileHere(value, where);
    cost.check(compiled.width, limits.grammarWidthMax, 'alternatives at one place');
    cost.where = outer;
    this.#depth--;
    return compiled;
  }

  #compileHere(value: unknown, where: string): Compiled {
    if (value === true) return one('any');
    if (!isSchema(value)) throw new SchemaError(`${where}: no JSON can follow this schema`);
    const schema = keywords(value);
    const { $ref, allOf, anyOf, oneOf, ...base } = schema;
    if (typeof $ref === 'string') return this.#reference($ref, schema, where);
    if (Array.isArray(allOf) && allOf.length === 1 && Object.keys(schema).length === 1)
      return this.#compile(allOf[0], where);
    if (Array.isArray(allOf)) return this.#compile(this.#all(allOf, schema, where), where);
    const alternatives = anyOf ?? oneOf;
    if (Array.isArray(alternatives)) {
      if (anyOf !== undefined && oneOf !== undefined)
        throw new SchemaError(`${where}: anyOf and oneOf in one schema`);
      return this.#any(
        alternatives.map((each) => (isSchema(each) ? joined(base, each) : each)),
        where,
      );
    }
    if ('const' in schema) return this.#values([schema.const], schema, where);
    if (Array.isArray(schema.enum)) return this.#values(schema.enum, schema, where);
    return this.#typed(schema, where);
  }

  #reference(pointer: string, schema: Schema, where: string): Compiled {
    const { $ref: _, ...siblings } = schema;
    const target = this.#resolve(pointer, where);
    if (Object.keys(siblings).length > 0) {
      if (!isSchema(target)) throw new SchemaError(`${where}: $ref ${pointer} with other keywords`);
      return this.#compile({ allOf: [target, siblings] }, where);
    }
    const known = this.#references.get(pointer);
    if (known) {
      known.recursive ||= known.compiled === null;
      return known.compiled ?? one(known.rule);
    }
    const reference: Reference = { rule: this.rules.reserve(), compiled: null, recursive: false };
    this.#references.set(pointer, reference);
    const compiled = this.#compile(target, pointer);
    this.rules.define(reference.rule, compiled.rule);
    reference.compiled = { ...compiled, rule: reference.rule };
    if (reference.recursive && compiled.ways > 1) {
      // Each level of the output would double the readings to follow.
      throw new SchemaError(
        `${pointer}: anyOf with alternatives that begin alike, in a schema that refers to itself`,
      );
    }
    return reference.compiled;
  }

  #resolve(pointer: string, where: string): unknown {
    if (!pointer.startsWith('#')) throw new SchemaError(`${where}: $ref to another document`);
    let at: unknown = this.document;
    for (const part of pointer.split('/').slice(1)) {
      const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
      at =
        typeof at === 'object' && at !== null && Object.hasOwn(at, key)
          ? (at as Schema)[key]
          : null;
    }
    if (at === null || at === undefined)
      throw new SchemaError(`${where}: $ref ${pointer} leads nowhere`);
    return at;
  }

  #all(schemas: readonly unknown[], schema: Schema, where: string, depth = 0): Schema {
    if (depth > limits.schemaDepthMax) throw new SchemaError(`${where}: allOf refers to itself`);
    const { allOf: _, ...base } = schema;
    const { cost } = this.rules;
    return schemas.reduce<Schema>((sum, each) => {
      cost.spend();
      if (each === true) return sum;
      if (!isSchema(each)) throw new SchemaError(`${where}: allOf with no schema in it`);
      const { $ref, ...own } = each;
      if (typeof $ref !== 'string') {
        const inner = Array.isArray(own.allOf) ? this.#all(own.allOf, own, where, depth + 1) : own;
        return merge(sum, inner, where, cost);
      }
      return this.#all([this.#resolve($ref, where), own], sum, where, depth + 1);
    }, base);
  }

  #any(alternatives: readonly unknown[], where: string): Compiled {
    const { cost } = this.rules;
    const resolve = (pointer: string) => this.#resolve(pointer, where);
    const compiled = alternatives.map((each, i) => ({
      ...this.#compile(each, `${where}/anyOf/${i}`),
      starts: sortedTexts(startOf(each, { resolve, cost })),
    }));
    if (compiled.length === 0) throw new SchemaError(`${where}: anyOf without alternatives`);
    const distinct = [...new Map(compiled.map((each) => [each.rule, each])).values()];
    const alike = distinct.map(({ starts }) =>
      distinct.filter((other) => {
        cost.spend(starts.length + other.starts.length);
        return overlap(starts, other.starts);
      }),
    );
    const ways = most(alike.map((group) => sum(group.map((each) => each.ways))));
    if (ways > limits.grammarWaysMax) {
      throw new SchemaError(`${where}: anyOf with too many alternatives that begin alike`);
    }
    const first = sum(distinct.map((each) => each.first));
    // As far as all of them begin alike, each start is a text to follow.
    const beginning = sum(distinct.map((each) => Math.max(each.first, each.starts.length)));
    const width = most([beginning, ...alike.map((group) => sum(group.map((each) => each.width)))]);
    return { rule: this.rules.either(compiled.map((each) => each.rule)), ways, width, first };
  }

  #values(values: readonly unknown[], schema: Schema, where: string): Compiled {
    const { const: _, enum: __, type, ...others } = schema;
    refuse(Object.keys(others)[0], `${where}: beside enum or const`);
    this.rules.cost.spend(values.length);
    const types = type === undefined ? null : [type].flat();
    const right = values.filter((value) => !types || types.some((each) => hasType(value, each)));
    if (right.length === 0) throw new SchemaError(`${where}: enum without a value of its type`);
    const texts = right.map((value) => JSON.stringify(value));
    const { rule, width } = valuesRule(this.rules, texts);
    return { rule, ways: 1, width, first: width };
  }

  #typed(schema: Schema, where: string): Compiled {
    refuse(
      Object.keys(schema).find((key) => !KNOWN.has(key)),
      where,
    );
    const types = typesOf(schema, where);
    const compiled = types.map((type) => this.#ofType(type, schema, where));
    const rule = this.rules.either(compiled.map((each) => each.rule));
    const first = sum(compiled.map((each) => each.first));
    return { rule, ...widest(compiled), first };
  }

  #ofType(type: JsonType, schema: Schema, where: string): Compiled {
    switch (type) {
      case 'object':
        return this.#object(schema, where);
      case 'array':
        return this.#array(schema, where);
      case 'string':
        return one(this.#string(schema, where));
      case 'number':
      case 'integer': {
        const rule = numberRule(this.rules, bounds(schema), type === 'integer');
        return one(this.rules.rule(rule));
      }
      case 'boolean':
        return one('boolean');
      case 'null':
        return one(this.rules.rule('"null"'));
    }
  }

  #string(schema: Schema, where: string): string {
    const { minLength, maxLength, format } = schema;
    if (format !== undefined) {
      const shape = formats[String(format)];
      if (!shape) throw new SchemaError(`${where}: format ${String(format)} is not supported`);
      refuse(
        ['minLength', 'maxLength'].find((key) => key in schema),
        `${where}: beside format`,
      );
      return this.rules.rule(`"\\"" ${shape} "\\""`);
    }
    if (minLength === undefined && maxLength === undefined) return 'string';
    const chars = this.rules.repeat('char', count(minLength, 0), count(maxLength, Infinity));
    return this.rules.rule(`"\\"" ${chars} "\\""`);
  }

  #array(schema: Schema, where: string): Compiled {
    const { items, prefixItems = [] } = schema;
    const [min, max] = [count(schema.minItems, 0), count(schema.maxItems, Infinity)];
    if (min > max) throw new SchemaError(`${where}: minItems above maxItems`);
    const fixed = (Array.isArray(prefixItems) ? prefixItems : []).map((each, i) =>
      this.#compile(each, `${where}/prefixItems/${i}`),
    );
    if (fixed.length === 0) {
      if (items === false || max === 0) return one(this.rules.rule('"[" ws "]"'));
      const item = this.#compile(items ?? true, `${where}/items`);
      const list = listed(this.rules, item.rule, { min, max });
      return { rule: this.rules.rule(`"[" ws ${list} "]"`), ...widest([item]), first: 1 };
    }
    // All listed items are put out, which is right whatever fewer the schema would allow.
    const rest =
      items === false || items === undefined ? null : this.#compile(items, `${where}/items`);
    const left = { min: Math.max(0, min - fixed.length), max: max - fixed.length };
    if (left.max < 0 || (left.min > 0 && !rest))
      throw new SchemaError(`${where}: minItems or maxItems do not fit prefixItems`);
    const tail = rest ? this.rules.repeat(`"," ws ${rest.rule}`, left.min, left.max) : '';
    const head = fixed.map((each) => each.rule).join(' "," ws ');
    return {
      rule: this.rules.rule(`"[" ws ${head} ${tail} ws "]"`),
      ...widest(rest ? [rest, ...fixed] : fixed),
      first: 1,
    };
  }

  #object(schema: Schema, where: string): Compiled {
    const { properties, required, additionalProperties } = schema;
    const listedSchemas = isSchema(properties) ? properties : {};
    const needed = Array.isArray(required) ? required.map(String) : [];
    const isMap = Object.keys(listedSchemas).length === 0 && needed.length === 0;
    // Unsaid, further properties are allowed but not needed: a model asked for three fields should give three.
    const open = additionalProperties ?? isMap;
    const further = open === false ? null : this.#compile(open, `${where}/additionalProperties`);
    const names = new Set([...Object.keys(listedSchemas), ...needed]);
    const values: Compiled[] = further ? [further] : [];
    const compiled: Property[] = [];
    for (const name of names) {
      const own = Object.hasOwn(listedSchemas, name) ? listedSchemas[name] : additionalProperties;
      if (own === false && !needed.includes(name)) continue;
      const value = this.#compile(own ?? true, `${where}/properties/${name}`);
      values.push(value);
      compiled.push({ name, value: value.rule, required: needed.includes(name) });
    }
    const counts = propertyCounts(schema, compiled, further !== null, where);
    this.rules.cost.where = where;
    const rule = objectRule(this.rules, compiled, further && { value: further.rule, ...counts });
    const { ways, width } = widest(values);
    return {
      rule,
      ways,
      width: Math.max(width, namesAtOnce(compiled, further !== null)),
      first: 1,
    };
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function most(numbers: readonly number[]): number {
  return numbers.reduce((highest, each) => Math.max(highest, each), 1);
}

/** For parts of which one is read at a time. */
function widest(parts: readonly Compiled[]): { ways: number; width: number } {
  return {
    ways: most(parts.map(({ ways }) => ways)),
    width: most(parts.map(({ width }) => width)),
  };
}

function joined(base: Schema, schema: Schema): Schema {
  return Object.keys(base).length === 0 ? schema : { allOf: [base, schema] };
}
