/**
 * Owns what is asked of an engine for a checked request, and how its answer is to be read.
 * It must never start anything, nor read a message's text.
 */
import type {
  Constraint,
  ConversationRequest,
  GenerateTask,
  SnapshotRef,
} from '../plugin/contract.js';
import type { ChatSettings, ResponseFormat } from '../protocol/chat.js';
import type { TextDecoder } from '../rules/answer.js';
import { planTools, type ToolMode } from '../rules/tool-calls.js';

export interface GenerationPlan {
  readonly task: GenerateTask;
  readonly stop: readonly string[];
  readonly toolMode: ToolMode;
  readonly newDecoder: () => TextDecoder;
}

export interface PromptAsCounted {
  readonly model: string;
  readonly owner: string;
  readonly ids: Uint32Array;
  readonly snapshot: SnapshotRef | null;
  readonly maxTokens: number;
  readonly endIds: readonly number[];
  readonly newDecoder: () => TextDecoder;
  /** For an engine that forwards messages; null for one that works with ids. */
  readonly conversation: ConversationRequest | null;
}

export function planGeneration(request: ChatSettings, prompt: PromptAsCounted): GenerationPlan {
  const { conversation } = prompt;
  const tools = planTools(conversation ? [] : request.tools, request.toolChoice);
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
      sampling: { temperature, topP, presencePenalty, frequencyPenalty, seed },
      constraint: conversation
        ? null
        : (tools.constraint ?? formatConstraint(request.responseFormat)),
      logprobs: request.logprobs,
      ...(conversation ? { conversation } : {}),
    },
    stop: request.stop,
    toolMode: tools.mode,
    newDecoder: prompt.newDecoder,
  };
}

function formatConstraint(format: ResponseFormat): Constraint | null {
  if (format.type === 'text') return null;
  const schema = format.type === 'json_schema' ? JSON.stringify(format.schema) : null;
  return { schema, trigger: null };
}
