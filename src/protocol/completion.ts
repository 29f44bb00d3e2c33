/**
 * Owns the wire shapes of an answer: the whole completion, and the chunks of a stream.
 * It must never decide what is in an answer, and never frame a chunk as an event.
 */
import type { NewBytes } from '../clock.js';
import { type Static, type TSchema, Type } from './schema.js';

export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface Usage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens that the engine did not evaluate; null when unknown. */
  readonly cachedTokens: number | null;
}

export interface TokenChance {
  readonly token: string;
  /** Natural logarithm. */
  readonly logprob: number;
  /** The token's bytes, since its text cannot show a part of a character. */
  readonly bytes: readonly number[];
}

export interface TokenLogprobs extends TokenChance {
  readonly top: readonly TokenChance[];
}

export interface AnswerToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface Choice {
  readonly content: string;
  readonly toolCalls: readonly AnswerToolCall[];
  readonly finishReason: FinishReason;
  /** null when the request did not ask for them. */
  readonly logprobs: readonly TokenLogprobs[] | null;
}

export interface AnswerHead {
  readonly id: string;
  readonly createdS: number;
  readonly model: string;
}

const count = Type.Integer({ minimum: 0 });

export const usageSchema = Type.Object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cached_tokens: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Prompt tokens that were not evaluated again.' }),
  ),
  prompt_tokens_details: Type.Optional(
    Type.Object({ cached_tokens: Type.Integer({ minimum: 1 }) }),
  ),
});

const finishReason = Type.Enum(['stop', 'length', 'tool_calls']);
const chance = {
  token: Type.String(),
  logprob: Type.Number(),
  bytes: Type.Array(Type.Integer({ minimum: 0, maximum: 255 })),
};
const logprobs = Type.Object({
  content: Type.Array(Type.Object({ ...chance, top_logprobs: Type.Array(Type.Object(chance)) })),
});
const toolCall = Type.Object({
  id: Type.String(),
  type: Type.Literal('function'),
  function: Type.Object({ name: Type.String(), arguments: Type.String() }),
});

const answer = <Kind extends string, Item extends TSchema>(kind: Kind, choice: Item) => ({
  id: Type.String({ pattern: '^chatcmpl-[0-9a-f]{32}$' }),
  object: Type.Literal(kind),
  created: Type.Integer({ description: 'Unix seconds.' }),
  model: Type.String(),
  choices: Type.Array(choice),
});

export const completionSchema = Type.Object({
  ...answer(
    'chat.completion',
    Type.Object({
      index: count,
      message: Type.Object({
        role: Type.Literal('assistant'),
        content: Type.String({ description: 'Empty where the answer is tool calls alone.' }),
        tool_calls: Type.Optional(Type.Array(toolCall)),
      }),
      logprobs: Type.Optional(logprobs),
      finish_reason: finishReason,
    }),
  ),
  usage: usageSchema,
});

export const chunkSchema = Type.Object({
  ...answer(
    'chat.completion.chunk',
    Type.Object({
      index: count,
      delta: Type.Object({
        role: Type.Optional(Type.Literal('assistant')),
        content: Type.Optional(Type.String()),
        tool_calls: Type.Optional(
          Type.Array(
            Type.Object({
              index: count,
              id: Type.Optional(Type.String()),
              type: Type.Optional(Type.Literal('function')),
              function: Type.Object({
                name: Type.Optional(Type.String()),
                arguments: Type.String(),
              }),
            }),
          ),
        ),
      }),
      logprobs: Type.Optional(logprobs),
      finish_reason: Type.Union([finishReason, Type.Null()]),
      usage: Type.Optional(usageSchema),
    }),
  ),
  usage: Type.Optional(usageSchema),
});

/** One event of a stream, as a reader of event streams hands it over. */
export const eventSchema = Type.Object({
  data: Type.Union([
    Type.Literal('[DONE]', { description: 'The end of the stream.' }),
    Type.String({
      contentMediaType: 'application/json',
      contentSchema: {
        anyOf: [
          { $ref: '#/components/schemas/ChatCompletionChunk' },
          { $ref: '#/components/schemas/Error' },
        ],
      },
    }),
  ]),
});

export type WireCompletion = Static<typeof completionSchema>;
export type WireUsage = Static<typeof usageSchema>;
export type WireLogprobs = Static<typeof logprobs>;

export function newCompletionId(newBytes: NewBytes): string {
  return `chatcmpl-${newBytes(16).toString('hex')}`;
}

export function completion(
  head: AnswerHead,
  choices: readonly Choice[],
  usage: Usage,
): WireCompletion {
  return {
    id: head.id,
    object: 'chat.completion',
    created: head.createdS,
    model: head.model,
    choices: choices.map((choice, index) => ({
      index,
      message: {
        role: 'assistant',
        content: choice.content,
        ...(choice.toolCalls.length > 0 ? { tool_calls: choice.toolCalls.map(wireToolCall) } : {}),
      },
      ...(choice.logprobs === null ? {} : { logprobs: wireLogprobs(choice.logprobs) }),
      finish_reason: choice.finishReason,
    })),
    usage: wireUsage(usage),
  };
}

/** Reuse appears in two fields, the service's own and the one SDKs know; unknown or none appears in neither. */
export function wireUsage({ promptTokens, completionTokens, cachedTokens }: Usage): WireUsage {
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
  if (cachedTokens === null || cachedTokens === 0) return usage;
  return {
    ...usage,
    cached_tokens: cachedTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

export function wireLogprobs(tokens: readonly TokenLogprobs[]): WireLogprobs {
  return {
    content: tokens.map((token) => ({
      ...wireChance(token),
      top_logprobs: token.top.map(wireChance),
    })),
  };
}

function wireChance({ token, logprob, bytes }: TokenChance) {
  return { token, logprob, bytes: [...bytes] };
}

function wireToolCall({ id, name, arguments: text }: AnswerToolCall): Static<typeof toolCall> {
  return { id, type: 'function', function: { name, arguments: text } };
}
