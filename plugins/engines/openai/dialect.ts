/**
 * Owns the fields that servers know beyond OpenAI's, chosen by the `owned_by` in their list of models.
 * It must never send an unknown server a field that OpenAI does not document: strict servers refuse it.
 */

export interface Dialect {
  /** Sampling fields that make the server keep the contract's defaults. */
  readonly sampling: Readonly<Record<string, number>>;
  /** Whether `cache_salt` keeps owners' prefixes apart, so that no prompt reuses the evaluation of another owner. */
  readonly saltsCache: boolean;
  /** How the server is asked to continue a last message of the assistant. */
  readonly partial: 'last-message' | 'flags' | 'partial';
  /** Whether the answer may repeat the continued message before it goes on. */
  readonly repeats: boolean;
}

/** The contract turns top-k, min-p and repetition off; these servers have other defaults, or take the model's. */
const dialects: ReadonlyMap<string, Dialect> = new Map([
  [
    'vllm',
    {
      sampling: { top_k: -1, min_p: 0, repetition_penalty: 1 },
      saltsCache: true,
      partial: 'flags',
      repeats: false,
    },
  ],
  [
    'sglang',
    {
      sampling: { top_k: -1, min_p: 0, repetition_penalty: 1 },
      saltsCache: true,
      partial: 'flags',
      repeats: false,
    },
  ],
  [
    'llamacpp',
    {
      sampling: { top_k: 0, min_p: 0, repeat_penalty: 1 },
      saltsCache: false,
      partial: 'last-message',
      repeats: true,
    },
  ],
  ['preface', { sampling: {}, saltsCache: true, partial: 'partial', repeats: false }],
]);

export const plainDialect: Dialect = {
  sampling: {},
  saltsCache: false,
  partial: 'partial',
  repeats: false,
};

/** @param text the body of `GET /models`. */
export function dialectOf(text: string, model: string): Dialect {
  try {
    const list = JSON.parse(text) as { data?: readonly { id?: unknown; owned_by?: unknown }[] };
    const entries = list.data ?? [];
    const { owned_by: owner } = entries.find(({ id }) => id === model) ?? entries[0] ?? {};
    return dialects.get(String(owner).toLowerCase()) ?? plainDialect;
  } catch {
    return plainDialect;
  }
}
