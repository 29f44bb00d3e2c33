/**
 * Owns the wire form of requests to an upstream.
 * It must never hold a field of the client's that the service did not parse, nor anything of another owner.
 */
import { createHash } from 'node:crypto';
import type {
  Conversation,
  ConversationMessage,
  ConversationRequest,
  ConversationTool,
  GenerateTask,
  UpstreamSpec,
} from 'preface/plugin';
import type { Dialect } from './dialect.js';

type Json = Readonly<Record<string, unknown>>;

/** OpenAI accepts this many stop strings; preface looks for the others in the answer itself. */
const STOPS_MAX = 4;

export interface Target {
  readonly upstream: UpstreamSpec;
  readonly dialect: Dialect;
}

export function chatBody(
  task: GenerateTask,
  conversation: ConversationRequest,
  target: Target,
): string {
  const { stop, partial } = conversation;
  return JSON.stringify({
    ...shared(task.owner, conversation, target),
    messages: messages(conversation, target.dialect),
    ...(partial && target.dialect.partial === 'flags' ? CONTINUES : {}),
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: task.maxTokens,
    ...sampling(task, target.dialect),
    ...(stop.length === 0 ? {} : { stop: stop.slice(0, STOPS_MAX) }),
    ...toolChoice(conversation),
    ...responseFormat(conversation.responseFormat),
    ...(task.logprobs === null ? {} : { logprobs: true, top_logprobs: task.logprobs }),
  });
}

/** Makes the upstream evaluate a prefix: one token is the smallest answer it can give. */
export function prefixBody(owner: string, prefix: Conversation, target: Target): string {
  return JSON.stringify({
    ...shared(owner, prefix, target),
    messages: answerable(prefix.messages).map(message),
    max_tokens: 1,
    temperature: 0,
  });
}

const CONTINUES = { continue_final_message: true, add_generation_prompt: false };

function shared(owner: string, { tools }: Conversation, { upstream, dialect }: Target): Json {
  return {
    model: upstream.model,
    ...(tools.length === 0 ? {} : { tools: tools.map(tool) }),
    ...(dialect.saltsCache ? { cache_salt: salt(owner, upstream) } : {}),
  };
}

/** Constant for one owner, and impossible to compute without the key. */
function salt(owner: string, { apiKey }: UpstreamSpec): string {
  return createHash('sha256')
    .update(`${apiKey ?? ''}\0${owner}`)
    .digest('hex')
    .slice(0, 32);
}

function sampling({ sampling: asked, choices }: GenerateTask, dialect: Dialect): Json {
  const { temperature, topP, presencePenalty, frequencyPenalty, seed } = asked;
  return {
    temperature,
    top_p: topP,
    ...dialect.sampling,
    ...(choices === 1 ? {} : { n: choices }),
    ...(presencePenalty === 0 ? {} : { presence_penalty: presencePenalty }),
    ...(frequencyPenalty === 0 ? {} : { frequency_penalty: frequencyPenalty }),
    ...(seed === null ? {} : { seed }),
  };
}

function messages({ messages: all, partial }: ConversationRequest, dialect: Dialect): Json[] {
  const wire = all.map(message);
  const last = wire.pop();
  if (last === undefined) return [];
  return [...wire, partial && dialect.partial === 'partial' ? { ...last, partial: true } : last];
}

/** Most templates want a user's turn last: this is the shortest one, after everything that is to be cached. */
function answerable(all: readonly ConversationMessage[]): readonly ConversationMessage[] {
  const last = all.at(-1)?.role;
  if (last === 'user' || last === 'tool') return all;
  return [...all, { role: 'user', content: '.', name: null, toolCalls: [], toolCallId: null }];
}

function message({ role, content, name, toolCalls, toolCallId }: ConversationMessage): Json {
  const calls = toolCalls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
  return {
    role,
    content: content === '' && calls.length > 0 ? null : content,
    ...(name === null ? {} : { name }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(toolCallId === null ? {} : { tool_call_id: toolCallId }),
  };
}

function tool({ name, description, parameters }: ConversationTool): Json {
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      ...(parameters === null ? {} : { parameters }),
    },
  };
}

/** `auto` is the default, and servers without a parser for tool calls refuse the word. */
function toolChoice({ tools, toolChoice: choice, parallelToolCalls }: ConversationRequest): Json {
  if (tools.length === 0) return {};
  const parallel = parallelToolCalls ? {} : { parallel_tool_calls: false };
  if (choice.type === 'function') {
    return { tool_choice: { type: 'function', function: { name: choice.name } }, ...parallel };
  }
  return choice.type === 'auto' ? parallel : { tool_choice: choice.type, ...parallel };
}

function responseFormat(format: ConversationRequest['responseFormat']): Json {
  if (format.type === 'text') return {};
  if (format.type !== 'json_schema') return { response_format: { type: 'json_object' } };
  const { name, schema, strict } = format;
  return {
    response_format: { type: 'json_schema', json_schema: { name, schema, strict } },
  };
}
