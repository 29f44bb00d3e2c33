/**
 * Owns the JSON rule of one choice: waits for its trigger, then follows the grammar to where the JSON closes.
 * It must never see another choice's output, nor give an owner a grammar that another owner's use has made.
 */
import type { Constraint } from 'preface/plugin';
import { compileSchema } from './compiler.js';
import type { Grammar, GrammarState } from './grammar.js';
import type { Weights } from './native.js';
import { SchemaError } from './schema/cost.js';

const KEPT = 64;
const KEPT_OF_OWNER = 8;
/** What can make a number longer, when a number is all there is. */
const NUMBER_PARTS = ['0', '.', 'e'];

/** Compiles a rule; `triggered` allows a space before its JSON. */
export type Compile = (
  schema: string | null,
  triggered: boolean,
  owner: string,
) => Promise<Grammar>;

interface Kept {
  readonly owner: string;
  readonly grammar: Promise<Grammar>;
}

/** Remembers grammars for the owner who used them: the time that one is saved would tell another what somebody used. */
export class Grammars {
  readonly #kept = new Map<string, Kept>();

  constructor(private readonly compile: Compile) {}

  get({ schema, trigger }: Constraint, owner: string): Promise<Grammar> {
    const triggered = trigger !== null;
    const key = JSON.stringify([owner, triggered, schema]);
    const known = this.#kept.get(key);
    const kept = known ?? { owner, grammar: this.compile(schema, triggered, owner) };
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    // What failed for want of time may succeed at another time.
    if (!known) kept.grammar.catch(() => this.#kept.delete(key));
    this.#dropOldest(owner);
    return kept.grammar;
  }

  /** An owner who has many loses one of their own. */
  #dropOldest(owner: string): void {
    const own = [...this.#kept].filter(([, kept]) => kept.owner === owner);
    const tooMany = own.length > KEPT_OF_OWNER ? own : this.#kept.size > KEPT ? this.#kept : [];
    for (const [key] of tooMany) return void this.#kept.delete(key);
  }
}

const grammars = new WeakMap<Weights, Grammars>();

/** One state for each choice of a task. @throws Error with `code: 'unsupported_schema'`. */
export async function openConstraints(
  constraint: Constraint,
  { weights, owner, choices }: { weights: Weights; owner: string; choices: number },
): Promise<ConstraintState[]> {
  const own = grammars.get(weights) ?? new Grammars(compilerFor(weights));
  grammars.set(weights, own);
  const grammar = await own.get(constraint, owner);
  const states: ConstraintState[] = [];
  for (let i = 0; i < choices; i++) {
    const state = new ConstraintState(weights, grammar, constraint.trigger);
    await state.open();
    states.push(state);
  }
  return states;
}

function compilerFor(weights: Weights): Compile {
  return async (schema, triggered, owner) => {
    const { text, width } = await compileSchema({ schema, leadingSpace: triggered }, owner);
    try {
      return await weights.grammar(text, { width, owner });
    } catch {
      throw new SchemaError('the schema makes a grammar that the engine cannot read');
    }
  };
}

export class ConstraintState {
  /** Null while the output is free. */
  grammar: GrammarState | null = null;
  #tail = '';
  #over = false;

  constructor(
    private readonly weights: Weights,
    private readonly rule: Grammar,
    private readonly trigger: string | null,
  ) {}

  async open(): Promise<void> {
    if (this.trigger === null) await this.#begin();
  }

  async #begin(): Promise<void> {
    const state = await this.rule.start();
    this.grammar?.close();
    this.grammar = state;
    if (!this.#over) return;
    this.close();
    throw new Error('the constraint is closed');
  }

  /** Whether the JSON is complete and nothing can be added to it. */
  async closed(): Promise<boolean> {
    const { grammar, weights } = this;
    if (!grammar || !(await grammar.allows(weights.endId))) return false;
    for (const part of NUMBER_PARTS) {
      for (const id of weights.tokenize(part)) if (await grammar.allows(id)) return false;
    }
    return true;
  }

  /** Takes a sampled id; returns the ids to put out for it. */
  async take(id: number): Promise<number[]> {
    await this.grammar?.accept(id);
    if (this.trigger === null || this.grammar) return [id];
    const piece = this.weights.piece(id);
    this.#tail += piece;
    const at = this.#tail.indexOf(this.trigger);
    if (at < 0) {
      this.#tail = this.#tail.slice(-this.trigger.length);
      return [id];
    }
    const rest = this.#tail.slice(at + this.trigger.length);
    await this.#begin();
    if (await this.#follows(rest)) return [id];
    // One token brought the end of the trigger and what may not come after it: only the trigger is kept.
    await this.#begin();
    return this.weights.tokenize(piece.slice(0, piece.length - rest.length));
  }

  close(): void {
    this.#over = true;
    this.grammar?.close();
    this.grammar = null;
  }

  async #follows(text: string): Promise<boolean> {
    for (const id of text === '' ? [] : this.weights.tokenize(text)) {
      if (!(await this.grammar?.allows(id))) return false;
      await this.grammar?.accept(id);
    }
    return true;
  }
}
