/**
 * Owns the wire form of requests to an upstream.
 * It must never hold a field of the client's that the service did not parse, nor anything of another owner.
 */
import { createHash } from 'node:crypto';
import type {
  Conversation,
  ConversationMessage,
  ConversationPart,
  ConversationRequest,
  ConversationTool,
  GenerateTask,
  SamplingExtras,
  UpstreamSpec,
} from 'preface/plugin';
import type { Dialect } from './dialect.js';
import { unknownToServer } from './failure.js';

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
  const { partial } = conversation;
  return JSON.stringify({
    ...tools(conversation),
    ...answerFields(task, conversation, target),
    messages: messages(conversation, target.dialect),
    ...(partial && target.dialect.partial === 'flags' ? CONTINUES : {}),
    stream: true,
    stream_options: { include_usage: true },
    ...toolChoice(conversation),
    ...template(conversation, target.dialect),
    ...(task.logprobs === null ? {} : { logprobs: true, top_logprobs: task.logprobs }),
  });
}

/** What is said of an answer, whatever it answers. */
export function answerFields(
  task: GenerateTask,
  { stop, responseFormat: format }: Pick<ConversationRequest, 'stop' | 'responseFormat'>,
  target: Target,
): Json {
  return {
    ...shared(task.owner, task.snapshot !== null, target),
    max_tokens: task.maxTokens,
    ...sampling(task, target.dialect),
    ...(stop.length === 0 ? {} : { stop: stop.slice(0, STOPS_MAX) }),
    ...responseFormat(format),
  };
}

/** @throws UpstreamError where the server would ignore what its template is to be told. */
function template({ templateArgs, reasoningEffort }: ConversationRequest, dialect: Dialect): Json {
  const { reasoning_effort: _, ...args } = templateArgs ?? {};
  const effort = reasoningEffort === undefined ? {} : { reasoning_effort: reasoningEffort };
  // Derived from the effort where the client has not said it.
  const isOwn = Object.keys(args).some((name) => name !== 'enable_thinking');
  if (!dialect.takesTemplateArgs && (isOwn || reasoningEffort === undefined) && templateArgs) {
    throw unknownToServer('chat_template_kwargs');
  }
  const isTold = dialect.takesTemplateArgs && Object.keys(args).length > 0;
  return { ...effort, ...(isTold ? { chat_template_kwargs: args } : {}) };
}

/** Makes the upstream evaluate a prefix: one token is the smallest answer it can give. */
export function prefixBody(owner: string, prefix: Conversation, target: Target): string {
  return JSON.stringify({
    ...shared(owner, true, target),
    ...tools(prefix),
    messages: answerable(prefix.messages).map(message),
    max_tokens: 1,
    temperature: 0,
  });
}

const CONTINUES = { continue_final_message: true, add_generation_prompt: false };

function tools({ tools: all }: Conversation): Json {
  return all.length === 0 ? {} : { tools: all.map(tool) };
}

/** @param isCached the request makes or names a cache. */
function shared(owner: string, isCached: boolean, { upstream, dialect }: Target): Json {
  const priority = isCached ? (upstream.cachePriority ?? null) : null;
  return {
    model: upstream.model,
    ...dialect.cacheHints({ salt: salt(owner, upstream), priority }),
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
    ...extras(asked, dialect),
  };
}

/** @throws UpstreamError that names what the server does not know: left out, it would change the answer. */
function extras(asked: SamplingExtras, dialect: Dialect): Json {
  const wire: Record<string, unknown> = {};
  for (const key of EXTRAS) {
    const value = asked[key];
    if (value === undefined) continue;
    const name = dialect.extras[key];
    if (name === undefined) throw unknownToServer(WIRE_NAMES[key]);
    wire[name] = key === 'logitBias' ? Object.fromEntries(asked.logitBias ?? []) : value;
  }
  return wire;
}

/** As clients of this service write them. */
const WIRE_NAMES: Readonly<Record<keyof SamplingExtras, string>> = {
  topK: 'top_k',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  logitBias: 'logit_bias',
  minTokens: 'min_tokens',
  ignoresEnd: 'ignore_eos',
};
const EXTRAS = Object.keys(WIRE_NAMES) as (keyof SamplingExtras)[];

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

function message(said: ConversationMessage): Json {
  const { role, content, parts, name, toolCalls, toolCallId } = said;
  const calls = toolCalls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
  return {
    role,
    content: parts?.map(part) ?? (content === '' && calls.length > 0 ? null : content),
    ...(name === null ? {} : { name }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(toolCallId === null ? {} : { tool_call_id: toolCallId }),
  };
}

function part(said: ConversationPart): Json {
  if (said.type === 'text') return { type: 'text', text: said.text };
  return { type: 'image_url', image_url: { url: said.url } };
}

function tool({ name, description, parameters, strict }: ConversationTool): Json {
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      ...(parameters === null ? {} : { parameters }),
      ...(strict === true ? { strict } : {}),
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
