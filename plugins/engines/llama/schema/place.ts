/**
 * Owns where the compiler is in a client's schema, and what becomes of a keyword that no grammar can hold.
 * It must never leave a keyword of a strict schema to the model.
 */
import { limits, type SchemaRule } from 'preface/plugin';
import { type Cost, NothingFits, SchemaError } from './cost.js';

const PLAIN_KEY = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

export class Places {
  /** JSON pointer of the schema that is at work. */
  where = '#';

  constructor(
    readonly rule: Pick<SchemaRule, 'strict' | 'field'>,
    readonly cost: Cost,
    /** What is left to the model: `tools[0].function.parameters.properties.p.pattern`. */
    readonly left: string[],
  ) {}

  /** Runs with another place at work. */
  at<Result>(where: string, run: () => Result): Result {
    const { where: outer, cost } = this;
    this.where = where;
    cost.place = this.name();
    const result = run();
    this.where = outer;
    cost.place = this.name();
    return result;
  }

  /** As the client wrote it. */
  name(keyword: string | null = null): string {
    const steps = this.where.split('/').slice(1).map(unescaped);
    return this.rule.field + [...steps, ...(keyword === null ? [] : [keyword])].map(step).join('');
  }

  /** @param reason the second half of a sentence about the keyword. @throws SchemaError in a strict schema. */
  leave(keyword: string | null, reason: string): void {
    const name = this.name(keyword);
    if (this.rule.strict)
      throw new SchemaError(`${name} ${reason}, so it cannot be enforced`, name);
    this.left.push(name);
  }

  /** undefined for a count that no grammar can hold. */
  countable(value: number, keyword: string): number | undefined {
    if (value === Number.POSITIVE_INFINITY || value <= limits.grammarRepeatMax) return value;
    this.leave(keyword, `is above ${limits.grammarRepeatMax}`);
    return undefined;
  }

  nothing(reason: string): NothingFits {
    const name = this.name();
    return new NothingFits(`${name} allows no JSON: ${reason}`, name);
  }
}

/** One step of a JSON pointer. */
export function unescaped(step: string): string {
  const text = step.replaceAll('~1', '/').replaceAll('~0', '~');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('%', '%25');
}

function step(name: string): string {
  if (/^\d+$/.test(name)) return `[${name}]`;
  return PLAIN_KEY.test(name) ? `.${name}` : `[${JSON.stringify(name).replaceAll('"', "'")}]`;
}
