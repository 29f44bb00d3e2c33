/**
 * Owns which texts of a request or an answer content review looks at.
 * It must never leave out what a model reads or a client is shown.
 */
import type { FilterText } from '../plugin/contract.js';
import { jsonInText } from '../protocol/json.js';
import type { ChatMessage } from '../protocol/message.js';
import type { ChatTool } from '../protocol/tool.js';

/** Messages of every role, calls and tools, with every text in them. */
export function inputTexts(
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[],
): FilterText[] {
  return [...messages.flatMap(messageTexts), ...tools.flatMap(toolTexts)];
}

interface ReviewedCall {
  readonly name: string;
  /** JSON text, whole or cut. */
  readonly arguments: string;
}

/** The JSON as written, and each string in it unescaped: an escape hides nothing. */
export function callTexts({ name, arguments: json }: ReviewedCall): FilterText[] {
  const texts = [name, json, ...parsedStrings(json)];
  return texts.map((text) => ({ role: 'assistant', text }));
}

function messageTexts({ role, content, name, toolCalls }: ChatMessage): FilterText[] {
  const parts = typeof content === 'string' ? [content] : content.map(partText);
  const own = [...parts, name ?? ''].filter((text) => text !== '');
  return [...own.map((text) => ({ role, text })), ...toolCalls.flatMap(callTexts)];
}

function partText(part: Exclude<ChatMessage['content'], string>[number]): string {
  return part.type === 'text' ? part.text : '';
}

/** The model reads tools in its system message. */
function toolTexts({ name, description, parameters }: ChatTool): FilterText[] {
  const texts = [name, description ?? '', ...strings(parameters)].filter((text) => text !== '');
  return texts.map((text) => ({ role: 'system', text }));
}

function parsedStrings(json: string): string[] {
  const parsed = jsonInText(json);
  return parsed === null ? [unescaped(json)] : strings(parsed.value);
}

/** Of arguments that were cut. */
function unescaped(json: string): string {
  return json.replace(/\\u([0-9a-fA-F]{4})|\\(.)/g, (_, code?: string, character?: string) =>
    code === undefined ? (character ?? '') : String.fromCharCode(Number.parseInt(code, 16)),
  );
}

/** Keys too. The depth of what came is bounded where it was parsed. */
function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(strings);
  return Object.entries(value).flatMap(([key, each]) => [key, ...strings(each)]);
}
