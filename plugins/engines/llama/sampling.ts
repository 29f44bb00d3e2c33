/**
 * Owns how a task's sampling settings become the sampler's, token by token, and what seeds a choice.
 * It must never leave a setting to the library's defaults: they are not the contract's.
 */
import { createHash, randomInt } from 'node:crypto';
import type { Sampling } from 'preface/plugin';
import type { GrammarState, SamplerConfig } from './addon.js';

const SEED_MAX = 2 ** 31 - 1;

/** Seed and choice decide. The addon takes 2³²−1 for "by the clock", which 31 bits cannot be. */
export function choiceSeed(seed: number | null, choice: number): number {
  if (seed === null) return randomInt(SEED_MAX);
  return createHash('sha256').update(`${seed}/${choice}`).digest().readUInt32BE() % SEED_MAX;
}

/** Settings of one choice for all its tokens. */
export class ChoiceSampling {
  readonly #config: SamplerConfig;
  readonly #penalised: boolean;
  readonly #maxTokens: number;
  /** Ids of this choice so far, in a buffer that doubles; the prompt is never punished. */
  #generated = new Uint32Array(64);
  #length = 0;

  constructor(sampling: Sampling, choice: number, maxTokens: number) {
    const { temperature, topP, presencePenalty, frequencyPenalty, seed } = sampling;
    this.#penalised = presencePenalty !== 0 || frequencyPenalty !== 0;
    this.#maxTokens = maxTokens;
    this.#config = {
      temperature,
      ...(topP < 1 ? { topP } : {}),
      seed: choiceSeed(seed, choice),
      ...(this.#penalised
        ? {
            repeatPenalty: 1,
            repeatPenaltyMaxTokens: maxTokens,
            repeatPenaltyPresencePenalty: presencePenalty,
            repeatPenaltyFrequencyPenalty: frequencyPenalty,
          }
        : {}),
    };
  }

  take(id: number): void {
    if (!this.#penalised || this.#length >= this.#maxTokens) return;
    if (this.#length === this.#generated.length) {
      const grown = new Uint32Array(this.#length * 2);
      grown.set(this.#generated);
      this.#generated = grown;
    }
    this.#generated[this.#length++] = id;
  }

  next(grammar: GrammarState | null): SamplerConfig {
    const config = grammar === null ? this.#config : { ...this.#config, grammar };
    if (!this.#penalised) return config;
    return { ...config, repeatPenaltyTokens: this.#generated.subarray(0, this.#length) };
  }
}
