/**
 * Owns what the addon under node-llama-cpp evaluates and samples: contexts, samplers, grammar states.
 * It must never decide what runs next; two calls into one context must never overlap, and the caller sees to that.
 */
import { stat } from 'node:fs/promises';

interface Disposable {
  dispose(): Promise<void>;
}

interface Cloneable {
  clone(): object;
}

/**
 * The part of the addon that we drive ourselves. The library's own scheduler merges a prompt chunk
 * with other streams' tokens into one batch, which costs both exactness and fairness.
 */
interface AddonContext {
  initBatch(size: number): void;
  addToBatch(sequence: number, at: number, ids: Uint32Array, logits: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(logit: number, sampler: AddonSampler): Promise<number>;
  sampleToken(
    logit: number,
    sampler: AddonSampler,
    probabilities: false,
    confidence: false,
    logits: readonly [readonly number[], boolean, boolean, boolean, number],
    totalWeight: boolean,
  ): Promise<[number, undefined, undefined, number[] | undefined, number | undefined]>;
  setThreads(threads: number): void;
  disposeSequence(sequence: number): void;
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean;
  copySequenceStateFromOtherSequence?(target: number, source: number): Promise<number>;
  saveSequenceStateToFile(path: string, sequence: number, ids: Uint32Array): Promise<number>;
  loadSequenceStateFromFile(path: string, sequence: number, idsMax: number): Promise<Uint32Array>;
  getSequenceKvCacheMinPosition(sequence: number): number;
  getSequenceKvCacheMaxPosition(sequence: number): number;
}

interface AddonSampler {
  applyConfig(config: object): void;
  dispose(): void;
}

export interface AddonSamplerClass {
  new (model: object): AddonSampler;
  acceptGrammarEvaluationStateToken(state: object, id: number): void;
  canBeNextTokenForGrammarEvaluationState(state: object, id: number): boolean;
}

/** What is absent is off: the addon's chain has only what it is given. */
export interface SamplerConfig {
  readonly temperature: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly seed?: number;
  readonly repeatPenalty?: 1;
  readonly repeatPenaltyTokens?: Uint32Array;
  readonly repeatPenaltyMaxTokens?: number;
  readonly repeatPenaltyPresencePenalty?: number;
  readonly repeatPenaltyFrequencyPenalty?: number;
  readonly grammar?: GrammarState | null;
}

export interface BatchItem {
  readonly sequence: number;
  readonly position: number;
  readonly ids: ArrayLike<number>;
  /** Ask for the logits after the last id. */
  readonly logits: boolean;
}

/** One preallocated memory of keys and values, cut into sequences of the same length. */
export class Context {
  readonly #addon: AddonContext;

  constructor(private readonly context: Disposable) {
    this.#addon = (context as unknown as { _ctx: AddonContext })._ctx;
  }

  /** Evaluates the batch; returns the place of the logits of each item that asked for them, in order. */
  async evaluate(items: readonly BatchItem[], threads: number): Promise<number[]> {
    this.#addon.setThreads(threads);
    this.#addon.initBatch(items.reduce((sum, item) => sum + item.ids.length, 0));
    const logits: number[] = [];
    for (const { sequence, position, ids, logits: wanted } of items) {
      const at = Uint32Array.from(wanted ? [ids.length - 1] : []);
      logits.push(...this.#addon.addToBatch(sequence, position, Uint32Array.from(ids), at));
    }
    await this.#addon.decodeBatch();
    return logits;
  }

  sample(logit: number, sampler: Sampler, config: SamplerConfig): Promise<number> {
    return this.#addon.sampleToken(logit, sampler.configured(config));
  }

  /** Raw logits, before penalties and temperature: of one id, the total weight, and the best ones. */
  async logits(logit: number, sampler: Sampler, id: number, top: number) {
    const plain = sampler.configured({ temperature: 0 });
    const only = [[id], true, false, false, 0] as const;
    const [, , , pairs = [], weight = 1] = await this.#addon.sampleToken(
      logit,
      plain,
      false,
      false,
      only,
      true,
    );
    const best: { id: number; logit: number }[] = [];
    if (top > 0) {
      // Asking the plain sampler for the top sorts the whole vocabulary; `topK` sorts the top alone.
      const ranked = sampler.configured({ temperature: 1, topK: top, seed: 1 });
      const all = [[], false, false, false, top] as const;
      const [, , , found = []] = await this.#addon.sampleToken(
        logit,
        ranked,
        false,
        false,
        all,
        false,
      );
      best.push(...toPairs(found));
    }
    return { pairs: toPairs(pairs), weight, best };
  }

  clear(sequence: number): void {
    this.#addon.disposeSequence(sequence);
  }

  /** Drops everything from `position` on; false when the model cannot, and the sequence is then empty. */
  truncate(sequence: number, position: number): boolean {
    if (position > 0 && this.#addon.removeTokenCellsFromSequence(sequence, position, -1))
      return true;
    this.clear(sequence);
    return position === 0;
  }

  /** Copies the whole of `source` over `target`; false when this build cannot, and `target` is then empty. */
  async copy(target: number, source: number, length: number): Promise<boolean> {
    const copied = await this.#addon.copySequenceStateFromOtherSequence?.(target, source);
    if (copied === length - 1) return true;
    this.clear(target);
    return false;
  }

  /** Writes the sequence's whole state. @throws Error also when less than the whole came to the file. */
  async save(sequence: number, path: string, ids: Uint32Array): Promise<void> {
    const bytes = await this.#addon.saveSequenceStateToFile(path, sequence, ids);
    const { size } = await stat(path);
    if (bytes === 0 || size !== bytes) throw new Error(`${size} of ${bytes} bytes were written`);
  }

  /** Fills the sequence from a file; null when the file's state did not become the sequence's, which is then empty. */
  async load(sequence: number, path: string, idsMax: number): Promise<Uint32Array | null> {
    this.clear(sequence);
    const ids = await this.#addon
      .loadSequenceStateFromFile(path, sequence, idsMax)
      .catch(() => null);
    const { first, last } = this.held(sequence);
    // What the library says it restored has once not been there.
    if (ids && ids.length > 0 && first === 0 && last === ids.length - 1) return ids;
    this.clear(sequence);
    return null;
  }

  /** First and last position that has keys and values; −1 when none has. */
  held(sequence: number): { first: number; last: number } {
    const first = this.#addon.getSequenceKvCacheMinPosition(sequence);
    return { first, last: this.#addon.getSequenceKvCacheMaxPosition(sequence) };
  }

  async close(): Promise<void> {
    await this.context.dispose();
  }
}

function toPairs(flat: readonly number[]): { id: number; logit: number }[] {
  const pairs = [];
  for (let i = 0; i + 1 < flat.length; i += 2)
    pairs.push({ id: flat[i] ?? 0, logit: flat[i + 1] ?? 0 });
  return pairs;
}

/** No choice has this seed (`choiceSeed`), so that the next one begins at the start of its own. */
const NO_SEED = 2 ** 32 - 2;

/**
 * Keeps the random state of one choice from token to token, and holds a place for every word of the vocabulary: half a
 * megabyte that V8 knows nothing of.
 */
export class Sampler {
  readonly #addon: AddonSampler;
  readonly #giveBack: (sampler: Sampler) => void;

  constructor(Class: AddonSamplerClass, model: object, giveBack: (sampler: Sampler) => void) {
    this.#addon = new Class(model);
    this.#giveBack = giveBack;
  }

  configured({ grammar, ...config }: SamplerConfig): AddonSampler {
    this.#addon.applyConfig(
      grammar ? { ...config, grammarEvaluationState: grammar.addon } : config,
    );
    return this.#addon;
  }

  /** Whoever has it next finds nothing of what it was used for. */
  close(): void {
    this.#addon.applyConfig({ temperature: 0, seed: NO_SEED });
    this.#giveBack(this);
  }

  /** The place for the vocabulary stays until it is collected. */
  dispose(): void {
    this.#addon.dispose();
  }
}

export class Grammar {
  constructor(
    private readonly Class: AddonSamplerClass,
    private readonly fresh: Cloneable,
  ) {}

  start(): GrammarState {
    return new GrammarState(this.Class, this.fresh.clone());
  }
}

/** How far one output has come in its grammar; the sampler moves it on with every token it takes. */
export class GrammarState {
  readonly addon: object;

  constructor(
    private readonly Class: AddonSamplerClass,
    state: object,
  ) {
    this.addon = (state as unknown as { _state: object })._state;
  }

  allows(id: number): boolean {
    return this.Class.canBeNextTokenForGrammarEvaluationState(this.addon, id);
  }

  accept(id: number): void {
    this.Class.acceptGrammarEvaluationStateToken(this.addon, id);
  }
}
