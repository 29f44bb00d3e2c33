/**
 * Owns how a task's sampling settings become those of one choice's sampler, and what seeds it.
 * It must never leave a setting to the library's defaults: they are not the contract's.
 */
import { createHash, randomInt } from 'node:crypto';
import type { Sampling } from 'preface/plugin';
import type { SamplerSettings } from './sampler.js';

const SEED_MAX = 2 ** 31 - 1;

/** Seed and choice decide. The library takes 2³²−1 for "by the clock", which 31 bits cannot be. */
export function choiceSeed(seed: number | null, choice: number): number {
  if (seed === null) return randomInt(SEED_MAX);
  return createHash('sha256').update(`${seed}/${choice}`).digest().readUInt32BE() % SEED_MAX;
}

export function choiceSettings(sampling: Sampling, choice: number): SamplerSettings {
  const { temperature, topP, presencePenalty, frequencyPenalty, seed } = sampling;
  return {
    temperature,
    topP,
    presencePenalty,
    frequencyPenalty,
    seed: choiceSeed(seed, choice),
  };
}
