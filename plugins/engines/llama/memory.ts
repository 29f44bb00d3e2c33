/**
 * Owns the arithmetic of memory: what a context takes, how many sequences it gets, whether it can ever fit.
 * It must never allocate anything itself.
 */
import { limits } from 'preface/plugin';

export interface ModelFacts {
  readonly architecture: string;
  readonly trainedWindow: number;
  readonly heads: number;
  readonly vocabularySize: number;
  /** Keys and values of one token in all layers. */
  readonly bytesPerToken: number;
  readonly weightsBytes: number;
  readonly description: string;
}

export interface ContextPlan {
  readonly window: number;
  readonly sequences: number;
  readonly bytes: number;
}

const FIXED_BYTES = 24 * 1024 * 1024;
const CELLS_STEP = 256;

/** The best context for a window, or null when not even one sequence fits. */
export function contextPlan(
  facts: ModelFacts,
  window: number,
  slots: number,
  bytesMax: number,
): ContextPlan | null {
  const long = window > facts.trainedWindow || window > limits.sharedWindowTokensMax;
  for (let sequences = long ? 1 : slots; sequences >= 1; sequences--) {
    const bytes = contextBytes(facts, window, sequences);
    if (bytes <= bytesMax) return { window, sequences, bytes };
  }
  return null;
}

export function contextBytes(facts: ModelFacts, window: number, sequences: number): number {
  const cells = Math.ceil(window / CELLS_STEP) * CELLS_STEP;
  const keysAndValues = cells * sequences * facts.bytesPerToken;
  // Without flash attention every head's scores over the window are held for a whole batch, as 32-bit floats.
  const scores = facts.heads * cells * limits.prefillChunkTokens * 4;
  // A window beyond the trained one needs its own mapping, whose repacked part is not shared.
  const mapping = window > facts.trainedWindow ? facts.weightsBytes : 0;
  return Math.ceil(keysAndValues + scores * 1.15 + FIXED_BYTES + mapping);
}
