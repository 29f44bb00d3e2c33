/**
 * Owns what servers want said beside the fields that all of them know: by the `owned_by` of their list of models.
 * It must never send an unknown server a field that OpenAI does not document: strict ones refuse it.
 */

export interface Dialect {
  /** Sampling that the contract promises and the server would not do by itself. */
  readonly sampling: Readonly<Record<string, number>>;
  /** Keeps owners' prefixes apart: what another owner evaluated is not reused, whatever the prompt. */
  readonly saltsCache: boolean;
  /** How a last message of the assistant's is continued. */
  readonly partial: 'last-message' | 'flags' | 'partial';
  /** A continued message may be repeated from its beginning. */
  readonly repeats: boolean;
}

/** Top-k, min-p and repetition are off by the contract; these servers have defaults of their own, or the model's. */
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
