/**
 * Owns the choice of the next token from logits: the best one, or one by chance, within a grammar where there is one.
 * It must never leave a native object behind that nobody frees.
 */
import type { Candidates } from './candidates.js';
import type { GrammarState } from './grammar.js';
import { type Library, library, type Pointer } from './libllama.js';

export interface SamplerSettings {
  /** 0: the best token. */
  readonly temperature: number;
  readonly topP: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly seed: number;
}

/** Keeps the random state and the penalties of one choice from token to token. */
export class Sampler {
  readonly #functions = library();
  /** Null once freed. */
  #chain: Pointer | null;
  readonly #greedy: boolean;
  /** How often each id was generated; the prompt is never punished. */
  readonly #counts = new Map<number, number>();
  readonly #penalised: boolean;
  #punished: Float32Array | null = null;

  constructor(
    private readonly candidates: Candidates,
    private readonly settings: SamplerSettings,
  ) {
    this.#greedy = settings.temperature <= 0;
    this.#penalised = settings.presencePenalty !== 0 || settings.frequencyPenalty !== 0;
    this.#chain = newChain(this.#functions, settings);
  }

  /** @throws Error when nothing can be chosen. */
  next(raw: Float32Array): number {
    return this.#choose(this.#adjusted(raw));
  }

  /** @param raw stays as it is until this is done. @throws Error when nothing can be chosen. */
  async nextWithin(raw: Float32Array, grammar: GrammarState): Promise<number> {
    const logits = this.#adjusted(raw);
    const id = this.#choose(logits);
    if (await grammar.allows(id)) return id;
    // Rare: a grammar that looks at the whole vocabulary takes longer than everything else.
    return await grammar.filter(logits, (candidates) => this.#select(candidates));
  }

  #adjusted(raw: Float32Array): Float32Array {
    return this.#penalised ? this.#punish(raw) : raw;
  }

  #choose(logits: Float32Array): number {
    if (this.#greedy) return best(logits);
    this.candidates.fill(logits);
    return this.#select(this.candidates);
  }

  #select(candidates: Candidates): number {
    if (this.#chain === null) throw new Error('the sampler is closed');
    this.#functions.samplerApply(this.#chain, candidates.address);
    const id = candidates.selected();
    if (id === null) throw new Error('no token could be sampled');
    return id;
  }

  #punish(raw: Float32Array): Float32Array {
    const { frequencyPenalty, presencePenalty } = this.settings;
    this.#punished ??= new Float32Array(raw.length);
    this.#punished.set(raw);
    for (const [id, count] of this.#counts)
      this.#punished[id] = (raw[id] ?? 0) - count * frequencyPenalty - presencePenalty;
    return this.#punished;
  }

  /** A token came out of this choice. */
  take(id: number): void {
    if (this.#penalised) this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  close(): void {
    if (this.#chain !== null) this.#functions.samplerFree(this.#chain);
    this.#chain = null;
  }
}

function newChain(functions: Library, { temperature, topP, seed }: SamplerSettings): Pointer {
  const chain = functions.chainInit({ no_perf: true });
  const add = (sampler: Pointer) => functions.chainAdd(chain, sampler);
  if (temperature <= 0) {
    add(functions.samplerGreedy());
    return chain;
  }
  if (topP < 1) add(functions.samplerTopP(topP, 1));
  add(functions.samplerTemperature(temperature));
  add(functions.samplerDistribution(seed));
  return chain;
}

function best(logits: Float32Array): number {
  let id = 0;
  let highest = logits[0] ?? 0;
  for (let i = 1; i < logits.length; i++) {
    const logit = logits[i] ?? 0;
    if (logit > highest) {
      highest = logit;
      id = i;
    }
  }
  if (Number.isNaN(highest)) throw new Error('the logits are no numbers');
  return id;
}
