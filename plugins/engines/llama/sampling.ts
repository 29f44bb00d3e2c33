/**
 * Owns how a task's sampling settings become those of one choice's sampler, and what seeds it.
 * It must never leave a setting to the library's defaults: they are not the contract's.
 */
import { createHash, randomInt } from 'node:crypto';
import type { GenerateTask } from 'preface/plugin';
import type { SamplerSettings } from './sampler.js';

const SEED_MAX = 2 ** 31 - 1;

/** Seed and choice decide. The library takes 2³²−1 for "by the clock", which 31 bits cannot be. */
export function choiceSeed(seed: number | null, choice: number): number {
  if (seed === null) return randomInt(SEED_MAX);
  return createHash('sha256').update(`${seed}/${choice}`).digest().readUInt32BE() % SEED_MAX;
}

export function choiceSettings(
  { sampling, prompt, endIds }: Pick<GenerateTask, 'sampling' | 'prompt' | 'endIds'>,
  choice: number,
): SamplerSettings {
  const { repetitionPenalty = 1, minTokens = 0, ignoresEnd = false } = sampling;
  return {
    ...sampling,
    seed: choiceSeed(sampling.seed, choice),
    topK: sampling.topK ?? 0,
    minP: sampling.minP ?? 0,
    logitBias: sampling.logitBias ?? [],
    repetitionPenalty,
    promptIds: repetitionPenalty === 1 ? NONE : prompt,
    endIds,
    tokensMin: ignoresEnd ? Number.POSITIVE_INFINITY : minTokens,
  };
}

const NONE = new Uint32Array();
