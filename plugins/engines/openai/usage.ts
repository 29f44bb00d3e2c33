/**
 * Owns the token counts of an upstream: where servers put them, and what they mean here.
 * It must never make up a count: a missing one is null.
 */
import { limits } from 'preface/plugin';

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens that were not evaluated; null where the upstream does not say. */
  readonly cachedTokens: number | null;
}

/** Reads OpenAI's field, then preface's own, then DeepSeek's. */
export function usageOf(wire: unknown): Usage | null {
  if (typeof wire !== 'object' || wire === null) return null;
  const usage = wire as Readonly<Record<string, unknown>>;
  const details = usage.prompt_tokens_details as Readonly<Record<string, unknown>> | null;
  const [promptTokens, completionTokens] = [
    count(usage.prompt_tokens),
    count(usage.completion_tokens),
  ];
  if (promptTokens === null || completionTokens === null) return null;
  const cachedTokens =
    count(details?.cached_tokens) ??
    count(usage.cached_tokens) ??
    count(usage.prompt_cache_hit_tokens);
  return { promptTokens, completionTokens, cachedTokens };
}

function count(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null;
}

/** Splits a total over all choices, in proportion to `parts`. */
export function splitCount(total: number, parts: readonly number[]): number[] {
  const sum = parts.reduce((all, part) => all + part, 0);
  let [given, seen] = [0, 0];
  return parts.map((part) => {
    seen += part;
    const until = sum === 0 ? 0 : Math.round((total * seen) / sum);
    const share = until - given;
    given = until;
    return share;
  });
}

/** Whether the upstream holds the prefix, except for the rest that does not fill one of its blocks. */
export function isCached({ promptTokens, cachedTokens }: Usage): boolean {
  if (cachedTokens === null || cachedTokens === 0) return false;
  const slack = Math.max(
    limits.upstreamUncachedTokensMax,
    promptTokens * limits.upstreamUncachedShareMax,
  );
  return promptTokens - cachedTokens <= slack;
}
