/**
 * Owns what is asked of an engine for a checked request, and how its answer is to be read.
 * It must never start anything, nor read a message's text.
 */
import type {
  Constraint,
  ConversationRequest,
  GenerateTask,
  RawRequest,
  SnapshotRef,
} from '../plugin/contract.js';
import type { LargeImages } from '../pool/large-images.js';
import type { ChatSettings } from '../protocol/chat.js';
import type { TextDecoder } from '../rules/answer.js';
import type { ReasoningMarks } from '../rules/reasoning.js';
import { planAnswer, type ToolMode } from '../rules/tool-calls.js';

export interface GenerationPlan {
  readonly task: GenerateTask;
  /** Those whose marks stand in its conversation; null where none do. */
  readonly images: LargeImages | null;
  /** Who waits for it. The owner of the task is narrower where the client salts its prefixes. */
  readonly account: string;
  readonly stop: readonly string[];
  readonly toolMode: ToolMode;
  readonly reasoning: Reasoning | null;
  readonly newDecoder: () => TextDecoder;
  /** The prompt that each choice begins with; null where it begins with the answer. */
  readonly echo: string | null;
  /** It runs where nobody else wants the place. */
  readonly isBackground: boolean;
}

/** How a model thinks, and whether the prompt ends inside of its thoughts. */
export interface Reasoning {
  readonly marks: ReasoningMarks;
  readonly opened: boolean;
}

export interface PromptAsCounted {
  readonly model: string;
  readonly account: string;
  readonly owner: string;
  readonly ids: Uint32Array;
  readonly snapshot: SnapshotRef | null;
  readonly maxTokens: number;
  readonly endIds: readonly number[];
  readonly newDecoder: () => TextDecoder;
  /** The model's template knows several calls in one message. */
  readonly manyCalls: boolean;
  readonly reasoning: Reasoning | null;
  /** For an engine that forwards messages; null for one that works with ids. */
  readonly conversation: ConversationRequest | null;
  readonly images: LargeImages | null;
  readonly isBackground: boolean;
  /** null for a prompt that a template rendered. */
  readonly raw: RawPromptAsRead | null;
}

export interface RawPromptAsRead {
  /** What the client wrote; null where it wrote ids. */
  readonly text: string | null;
  readonly echo: string | null;
  /** The engine takes prompts as text. */
  readonly isForwarded: boolean;
}

export function planGeneration(request: ChatSettings, prompt: PromptAsCounted): GenerationPlan {
  const { conversation, raw } = prompt;
  const isForwarded = conversation !== null || raw?.isForwarded === true;
  // The beginning of an answer that the client wrote has no thoughts in front of it, and a raw prompt no turns.
  const reasoning = isForwarded || raw || request.partial ? null : prompt.reasoning;
  const asked = isForwarded ? { ...request, tools: [] } : request;
  const { constraint, mode } = planAnswer(asked, prompt.manyCalls);
  const { temperature, topP, presencePenalty, frequencyPenalty, seed } = request;
  return {
    task: {
      model: prompt.model,
      owner: prompt.owner,
      prompt: prompt.ids,
      snapshot: prompt.snapshot,
      maxTokens: prompt.maxTokens,
      choices: request.choices,
      endIds: prompt.endIds,
      sampling: { temperature, topP, presencePenalty, frequencyPenalty, seed, ...request.extras },
      constraint: isForwarded || constraint === null ? null : thoughtful(constraint, reasoning),
      logprobs: request.logprobs,
      // Behind all others: every chat comes here, and fields behind a spread are slow to define.
      ...(prompt.account === prompt.owner ? null : { account: prompt.account }),
      ...(request.raw?.echo && request.logprobs !== null
        ? { promptLogprobs: request.logprobs }
        : null),
      ...(conversation && { conversation }),
      ...(raw?.isForwarded ? { raw: rawRequest(raw, request) } : null),
    },
    images: prompt.images,
    account: prompt.account,
    stop: request.stop,
    toolMode: mode,
    reasoning,
    newDecoder: prompt.newDecoder,
    echo: raw?.echo ?? null,
    isBackground: prompt.isBackground,
  };
}

function rawRequest({ text }: RawPromptAsRead, { stop, responseFormat }: ChatSettings): RawRequest {
  return { text, stop, responseFormat };
}

function thoughtful(constraint: Constraint, reasoning: Reasoning | null): Constraint {
  if (reasoning === null) return constraint;
  const { open, close } = reasoning.marks;
  return { ...constraint, thoughts: { open, close, opened: reasoning.opened } };
}
