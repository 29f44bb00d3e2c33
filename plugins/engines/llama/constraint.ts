/**
 * Owns the JSON rule of one choice: waits for its trigger, then follows the grammar to where the JSON closes.
 * It must never see another choice's output, nor give an owner a grammar that another owner's use has made.
 */
import type { Constraint } from 'preface/plugin';
import { compileConstraint, compileLoosely, isStrict } from './compiler.js';
import type { Grammar, GrammarState } from './grammar.js';
import type { Weights } from './native.js';
import { SchemaError } from './schema/cost.js';
import { isFree, type SchemaGrammar } from './schema/grammar.js';

const KEPT = 64;
const KEPT_OF_ACCOUNT = 8;
/** What can make a number longer, when a number is all there is. */
const NUMBER_PARTS = ['0', '.', 'e'];

export type Compile = (constraint: Constraint, owner: string) => Promise<Grammar>;

interface Kept {
  readonly account: string;
  readonly grammar: Promise<Grammar>;
}

/** Remembers grammars for the owner who used them: the time that one is saved would tell another what somebody used. */
export class Grammars {
  readonly #kept = new Map<string, Kept>();

  constructor(private readonly compile: Compile) {}

  /** @param account by which owners take turns, and lose what is too much. */
  get(constraint: Constraint, owner: string, account = owner): Promise<Grammar> {
    const key = JSON.stringify([owner, constraint]);
    const known = this.#kept.get(key);
    const kept = known ?? { account, grammar: this.compile(constraint, account) };
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    // What failed for want of time may succeed at another time.
    if (!known) kept.grammar.catch(() => this.#kept.delete(key));
    this.#dropOldest(account);
    return kept.grammar;
  }

  /** Who has many loses one of their own. */
  #dropOldest(account: string): void {
    const own = [...this.#kept].filter(([, kept]) => kept.account === account);
    const tooMany = own.length > KEPT_OF_ACCOUNT ? own : this.#kept.size > KEPT ? this.#kept : [];
    for (const [key] of tooMany) return void this.#kept.delete(key);
  }
}

const grammars = new WeakMap<Weights, Grammars>();

interface ConstraintUse {
  readonly weights: Weights;
  readonly owner: string;
  readonly account: string;
  readonly choices: number;
}

/** One state for each choice of a task. @throws Error with `code: 'unsupported_schema'`. */
export async function openConstraints(
  constraint: Constraint,
  { weights, owner, account, choices }: ConstraintUse,
): Promise<ConstraintState[]> {
  const own = grammars.get(weights) ?? new Grammars(compilerFor(weights));
  grammars.set(weights, own);
  const grammar = await own.get(constraint, owner, account);
  const states: ConstraintState[] = [];
  for (let i = 0; i < choices; i++) {
    const state = new ConstraintState(weights, grammar, constraint);
    await state.open();
    states.push(state);
  }
  return states;
}

function compilerFor(weights: Weights): Compile {
  const read = ({ text, width }: SchemaGrammar, owner: string) =>
    weights.grammar(text, { width, owner });
  return async (constraint, owner) => {
    const grammar = await compileConstraint(constraint, owner);
    try {
      return await read(grammar, owner);
    } catch {
      if (isStrict(constraint))
        throw new SchemaError('the schemas make a grammar that the engine cannot read');
      return await read(await compileLoosely(constraint, owner), owner);
    }
  };
}

export class ConstraintState {
  /** Null while the output is free. */
  grammar: GrammarState | null = null;
  #tail = '';
  #over = false;
  /** The output is free until it contains this. */
  private readonly trigger: string | null;
  /** Only the model knows whether more calls follow. */
  readonly #isOpenEnded: boolean;
  /** What the free output thinks in; null once it is over. */
  #thoughts: Constraint['thoughts'] | null;

  constructor(
    private readonly weights: Weights,
    private readonly rule: Grammar,
    { value, calls, thoughts }: Constraint,
  ) {
    this.trigger = isFree({ value, calls }) ? (calls?.open ?? null) : null;
    this.#thoughts = this.trigger === null ? null : thoughts;
    this.#isOpenEnded = calls?.many ?? false;
  }

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
    if (this.#isOpenEnded) return false;
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
    if (this.#thinks()) return [id];
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

  /** What the model thinks of calls is no call. */
  #thinks(): boolean {
    const thoughts = this.#thoughts;
    if (!thoughts) return false;
    const { open, close, opened } = thoughts;
    const begun = this.#tail.trimStart();
    if (!opened && !begun.startsWith(open)) {
      if (open.startsWith(begun)) return true;
      this.#thoughts = null;
      return false;
    }
    const end = this.#tail.indexOf(close);
    if (end < 0) {
      const kept = close.length + open.length;
      if (this.#tail.length > 4 * kept) this.#tail = (opened ? '' : open) + this.#tail.slice(-kept);
      return true;
    }
    this.#thoughts = null;
    this.#tail = this.#tail.slice(end + close.length);
    return false;
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
