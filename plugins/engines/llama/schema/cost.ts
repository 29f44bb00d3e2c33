/**
 * Owns what a schema may cost: the steps to turn it into a grammar, and the place that is at work when they run out.
 * It must never measure time: the same schema is enforced or not on every machine.
 */
import { limits } from 'preface/plugin';

/** The schema asks for what no grammar here can promise. */
export class SchemaError extends Error {
  readonly code = 'unsupported_schema';

  /** @param param the place, as the client wrote it. */
  constructor(
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

/** There is no JSON that follows this part. */
export class NothingFits extends SchemaError {}

/** The grammar of all of it would cost too much. */
export class TooDear extends SchemaError {}

export class Cost {
  /** The place that is at work, as the client wrote it. */
  place = '';
  #steps = 0;

  /** A step is one keyword, value or alternative that is looked at; the same place may be looked at many times. */
  spend(steps = 1): void {
    this.#steps += steps;
    this.check(this.#steps, limits.grammarStepsMax, 'steps to become a grammar');
  }

  /** @throws TooDear that names the place and the bound. */
  check(count: number, most: number, what: string): void {
    if (count <= most) return;
    throw new TooDear(
      `${this.place} needs more than ${most} ${what}; make the schema smaller`,
      this.place,
    );
  }
}
