/**
 * Owns the arithmetic of memory: what a context takes, how many sequences it gets, whether it can ever fit.
 * It must never allocate anything itself.
 */
import { limits } from 'preface/plugin';

/**
 * What a model remembers of earlier tokens. `dense`: keys and values of each. `window`: some layers see the last tokens
 * only. `recurrent`: one state that every token changes, so that none can be taken out again. `hybrid`: some layers of each.
 */
export type MemoryKind = 'dense' | 'window' | 'recurrent' | 'hybrid';

export interface ModelFacts {
  readonly architecture: string;
  readonly memory: MemoryKind;
  /** Tokens that a sliding window sees; 0 without one. */
  readonly slidingWindow: number;
  readonly trainedWindow: number;
  readonly heads: number;
  readonly vocabularySize: number;
  /** Keys and values of one token in all layers. */
  readonly bytesPerToken: number;
  /** Recurrent states of one sequence in all layers. */
  readonly bytesPerState: number;
  readonly weightsBytes: number;
  readonly description: string;
}

/** Cells that are summed up together: a state that comes back shifted by whole groups of them has the same sums. */
const CELL_GROUP = 64;

/**
 * Leading tokens of a prefix that a saved state may hold. The library saves a sliding window's layers without the cells
 * that later tokens cannot see, and puts the others to the front: by whole groups, or the sums would differ.
 */
export function savedLength(
  { slidingWindow }: Pick<ModelFacts, 'slidingWindow'>,
  length: number,
  grain = 1,
): number {
  const whole = length - (length % grain);
  if (slidingWindow === 0 || length <= slidingWindow) return whole;
  return length - ((length - slidingWindow) % CELL_GROUP);
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
  const scores = facts.heads * cells * limits.prefillRowsMax * 4;
  const states = sequences * facts.bytesPerState * (1 + limits.checkpointsPerSequence);
  return Math.ceil(keysAndValues + scores * 1.15 + states + FIXED_BYTES);
}
