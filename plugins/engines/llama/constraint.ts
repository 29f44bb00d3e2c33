/**
 * Owns the JSON rule of one choice: waits for its trigger, then follows the grammar to where the JSON closes.
 * It must never see another choice's output.
 */
import type { Constraint } from 'preface/plugin';
import type { Weights } from './native.js';
import type { Grammar, GrammarState } from './sampler.js';
import { schemaGrammar } from './schema/grammar.js';
import { SchemaError } from './schema/rules.js';

const GRAMMARS_KEPT = 64;
/** What can make a number longer, when a number is all there is. */
const NUMBER_PARTS = ['0', '.', 'e'];

const grammars = new WeakMap<Weights, Map<string, Promise<Grammar>>>();

/** Compiles the rule once for all choices of a task. @throws Error with `code: 'unsupported_schema'`. */
export async function openConstraint(
  { schema, trigger }: Constraint,
  weights: Weights,
): Promise<() => ConstraintState> {
  const grammar = await compiled(schema, trigger !== null, weights);
  return () => new ConstraintState(weights, grammar, trigger);
}

function compiled(schema: string | null, triggered: boolean, weights: Weights): Promise<Grammar> {
  const kept = grammars.get(weights) ?? new Map<string, Promise<Grammar>>();
  grammars.set(weights, kept);
  const key = `${triggered} ${schema ?? ''}`;
  const grammar = kept.get(key) ?? compile(schema, triggered, weights);
  kept.delete(key);
  kept.set(key, grammar);
  const [oldest] = kept.keys();
  if (kept.size > GRAMMARS_KEPT && oldest !== undefined) kept.delete(oldest);
  return grammar;
}

async function compile(schema: string | null, triggered: boolean, weights: Weights) {
  const text = schemaGrammar(schema, triggered);
  try {
    return weights.grammar(text);
  } catch {
    throw new SchemaError('the schema makes a grammar that the engine cannot read');
  }
}

export class ConstraintState {
  /** Null while the output is free. */
  grammar: GrammarState | null = null;
  #tail = '';

  constructor(
    private readonly weights: Weights,
    private readonly rule: Grammar,
    private readonly trigger: string | null,
  ) {
    if (trigger === null) this.grammar = rule.start();
  }

  /** The JSON is complete and nothing can be added to it. */
  get closed(): boolean {
    const { grammar, weights } = this;
    if (!grammar?.allows(weights.endId)) return false;
    return !NUMBER_PARTS.some((part) => weights.tokenize(part).some((id) => grammar.allows(id)));
  }

  /** Takes a sampled id; returns the ids to put out for it. */
  take(id: number): number[] {
    this.grammar?.accept(id);
    if (this.trigger === null || this.grammar) return [id];
    const piece = this.weights.piece(id);
    this.#tail += piece;
    const at = this.#tail.indexOf(this.trigger);
    if (at < 0) {
      this.#tail = this.#tail.slice(-this.trigger.length);
      return [id];
    }
    const rest = this.#tail.slice(at + this.trigger.length);
    this.grammar = this.rule.start();
    if (this.#follows(rest)) return [id];
    // One token brought the end of the trigger and what may not come after it: only the trigger is kept.
    this.close();
    this.grammar = this.rule.start();
    return this.weights.tokenize(piece.slice(0, piece.length - rest.length));
  }

  close(): void {
    this.grammar?.close();
    this.grammar = null;
  }

  #follows(text: string): boolean {
    for (const id of text === '' ? [] : this.weights.tokenize(text)) {
      if (!this.grammar?.allows(id)) return false;
      this.grammar.accept(id);
    }
    return true;
  }
}
