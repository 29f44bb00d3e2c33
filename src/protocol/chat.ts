/**
 * Owns the parse of a chat request: code below this file sees neither the wire's spelling nor an unchecked field.
 * It must never know which models there are, nor count a token.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { refuse } from './chat-faults.js';
import { chatRequestSchema, type WireChatRequest } from './chat-schema.js';
import { shown } from './field.js';
import { checkSchema } from './json-schema.js';
import { type ChatMessage, checkToolResults, readMessages } from './message.js';
import { compile, type JsonObject } from './schema.js';
import { type ChatTool, readToolChoice, readTools, type ToolChoice } from './tool.js';

export type ResponseFormat =
  | { readonly type: 'text' }
  | { readonly type: 'json_object' }
  | {
      readonly type: 'json_schema';
      readonly name: string;
      readonly schema: JsonObject;
      readonly strict: boolean;
    };

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  /** The last message is the beginning of the answer. */
  readonly partial: boolean;
  /** null: not given. Only an explicit value can exceed the window. */
  readonly maxTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  readonly choices: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly stop: readonly string[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
  readonly parallelToolCalls: boolean;
  readonly responseFormat: ResponseFormat;
  readonly seed: number | null;
  /** Alternatives wanted beside each token's own log-probability; null: no log-probabilities at all. */
  readonly logprobs: number | null;
  /** A request reuses only prompts with the same salt; null is a salt of its own. */
  readonly cacheSalt: string | null;
  /** As the client sent them, for the canonical form. Absent, null and empty tools are all empty here. */
  readonly wireMessages: readonly JsonObject[];
  readonly wireTools: readonly JsonObject[];
}

/** All that is small of a request, whatever its conversation is. */
export type ChatSettings = Omit<ChatRequest, 'messages' | 'wireMessages' | 'wireTools'>;

export function settingsOf(request: ChatRequest): ChatSettings {
  const { messages: _messages, wireMessages: _wire, wireTools: _tools, ...settings } = request;
  return settings;
}

const fits = compile(chatRequestSchema);

export interface ParseOptions {
  /** False where an earlier part of the conversation, with its calls, is in a cache. */
  readonly begins: boolean;
}

/** @throws ApiError that names the field, what came and what is allowed. */
export function parseChatRequest(
  value: unknown,
  options: ParseOptions = { begins: true },
): ChatRequest {
  if (!fits(value)) throw refuse(chatRequestSchema, value);
  const request = readRequest(value);
  checkTogether(request, value);
  if (options.begins) checkToolResults(request.messages);
  return request;
}

function readRequest(wire: WireChatRequest): ChatRequest {
  const messages = readMessages(wire.messages);
  const tools = readTools(wire.tools ?? []);
  return {
    model: wire.model,
    messages,
    partial: messages.at(-1)?.partial ?? false,
    maxTokens: readMaxTokens(wire),
    temperature: wire.temperature ?? 0,
    topP: wire.top_p ?? 1,
    choices: wire.n ?? 1,
    presencePenalty: wire.presence_penalty ?? 0,
    frequencyPenalty: wire.frequency_penalty ?? 0,
    stop: readStop(wire.stop),
    stream: wire.stream ?? false,
    includeUsage: wire.stream_options?.include_usage ?? false,
    tools,
    toolChoice: readToolChoice(wire.tool_choice, tools),
    parallelToolCalls: wire.parallel_tool_calls ?? true,
    responseFormat: readResponseFormat(wire.response_format),
    seed: wire.seed ?? null,
    logprobs: wire.logprobs === true ? (wire.top_logprobs ?? 0) : null,
    cacheSalt: wire.cache_salt ?? null,
    wireMessages: wire.messages,
    wireTools: wire.tools ?? [],
  };
}

/** Rules over several fields, which no schema can say. */
function checkTogether(request: ChatRequest, wire: WireChatRequest): void {
  const { choices, temperature, toolChoice, responseFormat } = request;
  if (choices > 1 && temperature < limits.temperatureGreedyMax) {
    throw invalid(
      `n must be 1 when temperature is below ${limits.temperatureGreedyMax}, got n ${choices} with temperature ${temperature}`,
      'n',
    );
  }
  if (request.logprobs === null && (wire.top_logprobs ?? 0) > 0) {
    throw invalid(
      `top_logprobs needs logprobs to be true, got logprobs ${shown(wire.logprobs)}`,
      'top_logprobs',
    );
  }
  if (responseFormat.type !== 'text') checkJsonFormat(request, toolChoice);
}

/**
 * A forced JSON answer leaves no room for an optional tool call, nor for a beginning that is
 * not part of the JSON. A forced call is the answer itself, so the format does not matter.
 */
function checkJsonFormat(request: ChatRequest, toolChoice: ToolChoice): void {
  const format = `response_format of type '${request.responseFormat.type}'`;
  if (request.partial) {
    throw invalid(`${format} cannot continue a partial message`, 'response_format');
  }
  if (request.tools.length > 0 && toolChoice.type === 'auto') {
    throw invalid(
      `${format} cannot be combined with tools while tool_choice is 'auto', set it to 'none', 'required' or a function`,
      'response_format',
    );
  }
}

function readMaxTokens(wire: WireChatRequest): number | null {
  const older = wire.max_tokens ?? null;
  const newer = wire.max_completion_tokens ?? null;
  if (older !== null && newer !== null && older !== newer) {
    throw invalid(
      `max_tokens and max_completion_tokens mean the same and must not differ, got ${older} and ${newer}`,
      'max_completion_tokens',
    );
  }
  return older ?? newer;
}

function readStop(stop: WireChatRequest['stop']): readonly string[] {
  if (stop === undefined || stop === null) return [];
  const texts = typeof stop === 'string' ? [stop] : stop;
  for (const [index, text] of texts.entries()) {
    const bytes = Buffer.byteLength(text);
    if (bytes <= limits.stopBytesMax) continue;
    const field = typeof stop === 'string' ? 'stop' : `stop[${index}]`;
    throw invalid(
      `${field} must have at most ${limits.stopBytesMax} bytes in UTF-8, got ${bytes}`,
      field,
    );
  }
  return texts;
}

function readResponseFormat(format: WireChatRequest['response_format']): ResponseFormat {
  if (format === undefined || format === null) return { type: 'text' };
  if (format.type !== 'json_schema') return { type: format.type };
  const { name, schema, strict } = format.json_schema;
  checkSchema(schema, 'response_format.json_schema.schema');
  return { type: 'json_schema', name, schema, strict: strict ?? false };
}
