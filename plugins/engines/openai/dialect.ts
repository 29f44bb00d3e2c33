/**
 * Owns the fields that servers know beyond OpenAI's, chosen by the `owned_by` in their list of models.
 * It must never send an unknown server a field that OpenAI does not document: strict servers refuse it.
 */

import type { SamplingExtras } from 'preface/plugin';

export interface Dialect {
  /** Sampling fields that make the server keep the contract's defaults. */
  readonly sampling: Readonly<Record<string, number>>;
  /** How the server calls what few clients ask for; it gets no others. */
  readonly extras: Readonly<Partial<Record<keyof SamplingExtras, string>>>;
  /** Whether `chat_template_kwargs` reach the server's template. */
  readonly takesTemplateArgs: boolean;
  /** Whether `cache_salt` keeps owners' prefixes apart, so that no prompt reuses the evaluation of another owner. */
  readonly saltsCache: boolean;
  /** How the server is asked to continue a last message of the assistant. */
  readonly partial: 'last-message' | 'flags' | 'partial';
  /** Whether the answer may repeat the continued message before it goes on. */
  readonly repeats: boolean;
  /** Whether `/props` tells what the model looks at. */
  readonly tellsSightAtProps: boolean;
  /** Whether `echo` beside `logprobs` gives the log-probabilities of a raw prompt. */
  readonly scoresPrompts: boolean;
}

/** The contract turns top-k, min-p and repetition off; these servers have other defaults, or take the model's. */
const LOGIT_BIAS = { logitBias: 'logit_bias' };
const ALL_EXTRAS = {
  ...LOGIT_BIAS,
  topK: 'top_k',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  minTokens: 'min_tokens',
  ignoresEnd: 'ignore_eos',
};
const LLAMA_SERVER_EXTRAS = {
  ...LOGIT_BIAS,
  topK: 'top_k',
  minP: 'min_p',
  repetitionPenalty: 'repeat_penalty',
  ignoresEnd: 'ignore_eos',
};

const dialects: ReadonlyMap<string, Dialect> = new Map([
  [
    'vllm',
    {
      sampling: { top_k: -1, min_p: 0, repetition_penalty: 1 },
      extras: ALL_EXTRAS,
      takesTemplateArgs: true,
      saltsCache: true,
      partial: 'flags',
      repeats: false,
      tellsSightAtProps: false,
      scoresPrompts: true,
    },
  ],
  [
    'sglang',
    {
      sampling: { top_k: -1, min_p: 0, repetition_penalty: 1 },
      extras: ALL_EXTRAS,
      takesTemplateArgs: true,
      saltsCache: true,
      partial: 'flags',
      repeats: false,
      tellsSightAtProps: false,
      scoresPrompts: true,
    },
  ],
  [
    'llamacpp',
    {
      sampling: { top_k: 0, min_p: 0, repeat_penalty: 1 },
      extras: LLAMA_SERVER_EXTRAS,
      takesTemplateArgs: true,
      saltsCache: false,
      partial: 'last-message',
      repeats: true,
      tellsSightAtProps: true,
      scoresPrompts: false,
    },
  ],
  [
    'preface',
    {
      sampling: {},
      extras: ALL_EXTRAS,
      takesTemplateArgs: true,
      saltsCache: true,
      partial: 'partial',
      repeats: false,
      tellsSightAtProps: false,
      scoresPrompts: true,
    },
  ],
]);

export const plainDialect: Dialect = {
  sampling: {},
  extras: LOGIT_BIAS,
  takesTemplateArgs: false,
  saltsCache: false,
  partial: 'partial',
  repeats: false,
  tellsSightAtProps: false,
  scoresPrompts: true,
};

/** An entry of a list of models, as servers of several kinds write it. */
interface ListedModel {
  readonly id?: unknown;
  readonly owned_by?: unknown;
  readonly supports_image_in?: unknown;
  readonly architecture?: { readonly input_modalities?: unknown } | null;
}

function listed(text: string, model: string): ListedModel {
  try {
    const list = JSON.parse(text) as { data?: readonly ListedModel[] };
    const entries = list.data ?? [];
    return entries.find(({ id }) => id === model) ?? entries[0] ?? {};
  } catch {
    return {};
  }
}

/** @param text the body of `GET /models`. */
export function dialectOf(text: string, model: string): Dialect {
  return dialects.get(String(listed(text, model).owned_by).toLowerCase()) ?? plainDialect;
}

/** Whether the list says that the model looks at images. */
export function seesBy(text: string, model: string): boolean {
  const { supports_image_in: sees, architecture } = listed(text, model);
  const modalities = architecture?.input_modalities;
  return sees === true || (Array.isArray(modalities) && modalities.includes('image'));
}

/** @param text the body of `GET /props`. */
export function seesAt(text: string): boolean {
  try {
    const props = JSON.parse(text) as { modalities?: { vision?: unknown } | null } | null;
    return props?.modalities?.vision === true;
  } catch {
    return false;
  }
}
