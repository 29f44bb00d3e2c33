/**
 * Owns log-probabilities: of a token, and of the best ones beside it, from raw logits.
 * It must stay pure, and never see penalties or a temperature: they are not the model's.
 */
import type { TokenLogprob } from 'preface/plugin';

export function logprobOf(logits: Float32Array, id: number, top: number): TokenLogprob {
  const total = logSum(logits);
  const logprob = (of: number) => (logits[of] ?? Number.NEGATIVE_INFINITY) - total;
  return {
    id,
    logprob: logprob(id),
    top: bestIds(logits, top).map((best) => ({ id: best, logprob: logprob(best) })),
  };
}

/** Logarithm of the sum of all weights, from the highest on: no weight is beyond a float then. */
function logSum(logits: Float32Array): number {
  let highest = Number.NEGATIVE_INFINITY;
  for (const logit of logits) if (logit > highest) highest = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  return highest + Math.log(sum);
}

/** The best ones, best first; of equal ones the one with the lower id. */
function bestIds(logits: Float32Array, count: number): number[] {
  const best: number[] = [];
  const logitAt = (at: number) => logits[best[at] ?? -1] ?? Number.NEGATIVE_INFINITY;
  for (let id = 0; id < logits.length; id++) {
    const logit = logits[id] ?? Number.NEGATIVE_INFINITY;
    if (best.length === count && !(logit > logitAt(count - 1))) continue;
    let at = best.length;
    while (at > 0 && logit > logitAt(at - 1)) at--;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  return best;
}
