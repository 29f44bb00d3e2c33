/**
 * Owns what a schema may cost: the steps to turn it into a grammar, and the place that is at work when they run out.
 * It must never measure time: the same schema is accepted or refused on every machine.
 */
import { limits } from 'preface/plugin';

/** The schema asks for what no grammar here can promise. */
export class SchemaError extends Error {
  readonly code = 'unsupported_schema';
}

export class Cost {
  /** The place in the schema that is at work. */
  where = '#';
  #steps = 0;

  /** A step is one keyword, value or alternative that is looked at; the same place may be looked at many times. */
  spend(steps = 1): void {
    this.#steps += steps;
    this.check(this.#steps, limits.grammarStepsMax, 'steps to become a grammar');
  }

  /** @throws SchemaError that names the place and the bound. */
  check(count: number, most: number, what: string): void {
    if (count > most)
      throw new SchemaError(
        `${this.where}: the schema needs more than ${most} ${what}; make it smaller`,
      );
  }
}
