/**
 * Owns one context of the library that makes vectors: a batch of inputs, and the vector of each.
 * It must never have two calls in flight, and never hand the library a number outside its range: nothing there checks it.
 */
import { type BatchItem, NativeBatch } from './context.js';
import { floatsAt, type Library, later, library, type Pointer, Threads } from './libllama.js';
import { type ModelFacts, POOLING, type VectorPlan } from './memory.js';

/** Part of an input, in a sequence of its own. */
export type VectorItem = Omit<BatchItem, 'logits'>;

/** Flash attention where the library can. */
const AUTO = -1;

export class VectorContext {
  readonly #library: Library;
  /** null for a model that keeps nothing of earlier tokens. */
  readonly #memory: Pointer | null;
  readonly #batch: NativeBatch;
  readonly #threads = new Threads();
  readonly #length: number;
  #closed = false;

  private constructor(
    private readonly address: Pointer,
    model: Pointer,
    private readonly plan: VectorPlan,
    private readonly facts: ModelFacts,
  ) {
    this.#library = library();
    const { contextMemory, modelClasses, modelVectorLength } = this.#library;
    this.#memory = contextMemory(address) || null;
    this.#batch = new NativeBatch(this.#library, plan.rows);
    this.#length = this.#isRank ? modelClasses(model) : modelVectorLength(model);
  }

  static async open(model: Pointer, plan: VectorPlan, facts: ModelFacts): Promise<VectorContext> {
    const { contextDefaults, contextOpen } = library();
    const params = {
      ...contextDefaults(),
      n_ctx: plan.window + plan.rows,
      n_batch: plan.rows,
      n_ubatch: plan.rows,
      n_seq_max: plan.sequences,
      n_outputs_max: plan.rows,
      pooling_type: plan.pooling,
      flash_attn_type: AUTO,
      embeddings: true,
      no_perf: true,
      // One memory for all: neighbours of different lengths are evaluated together.
      kv_unified: true,
    };
    const address = await later(contextOpen, model, params);
    if (address === null) throw new Error('the context could not be opened: too little memory?');
    return new VectorContext(address, model, plan, facts);
  }

  get #isRank(): boolean {
    return this.plan.pooling === POOLING.rank;
  }

  /** Evaluates the items, each in another sequence. */
  async evaluate(items: readonly VectorItem[], threads: number): Promise<void> {
    for (const item of items) this.#check(item);
    this.#batch.fill(items.map((item) => ({ ...item, logits: 'all' })));
    this.#threads.set(this.address, threads);
    const status = await later(this.#library.decode, this.address, this.#batch.filled);
    if (status !== 0) throw new Error(`the library could not evaluate the inputs (${status})`);
  }

  /** The vector of a sequence that the last batch has completed; of a pair its score, from 0 to 1. The sequence is empty then. */
  take(sequence: number): Float32Array {
    const address = this.#library.vectorOf(this.address, sequence);
    if (address === null) throw new Error(`the sequence ${sequence} has no vector`);
    const vector = floatsAt(address, this.#length).slice();
    if (this.#memory !== null) this.#library.sequenceRemove(this.#memory, sequence, 0, -1);
    return this.#isRank ? Float32Array.of(this.#score(vector[0] ?? 0)) : vector;
  }

  /** Forgets an input that nobody wants. */
  clear(sequence: number): void {
    if (this.#memory !== null) this.#library.sequenceRemove(this.#memory, sequence, 0, -1);
  }

  /** The library makes shares of some models' classes itself; others give a logit. */
  #score(value: number): number {
    return SHARES.has(this.facts.architecture) ? value : 1 / (1 + Math.exp(-value));
  }

  #check({ sequence, position, ids }: VectorItem): void {
    const { sequences, window } = this.plan;
    if (!(sequence >= 0 && sequence < sequences)) throw new Error(`no sequence ${sequence}`);
    if (!(position >= 0 && position + ids.length <= window))
      throw new Error(`no position ${position}`);
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] ?? -1;
      if (!(id >= 0 && id < this.facts.vocabularySize)) throw new Error(`no token ${id}`);
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await later(this.#library.contextFree, this.address);
    this.#threads.close();
    this.#batch.free();
  }
}

/** Architectures whose classes come as shares of 1. */
const SHARES = new Set(['qwen3', 'qwen3vl']);
