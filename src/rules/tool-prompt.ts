/**
 * Owns the text form of tools, calls and results, for a model whose template has none.
 * It must never be used where the template has its own form.
 */
import { jsonInText } from '../protocol/json.js';
import type {
  PromptInput,
  PromptMessage,
  PromptPart,
  PromptTool,
  PromptToolCall,
} from './prompt.js';
import { TOOL_CALL_CLOSE, TOOL_CALL_OPEN } from './tool-calls.js';

/**
 * Returns the prompt without tools: their declarations end the system message (a new one if there is none),
 * calls become text of the assistant, results become turns of the user.
 */
export function withToolsAsText(input: PromptInput): PromptInput {
  const tools = input.tools ?? [];
  const messages = input.messages.map(asTextMessage);
  if (tools.length === 0) return { ...input, messages, tools: null };
  const [first, ...rest] = messages;
  const declared =
    first?.role === 'system'
      ? [{ ...first, content: appended(first.content, toolsText(tools)) }, ...rest]
      : [systemMessage(toolsText(tools)), ...messages];
  return { ...input, messages: declared, tools: null };
}

export function toolsText(tools: readonly PromptTool[]): string {
  return [
    '# Tools',
    '',
    'You can call these functions to help the user. Each line is one function in JSON:',
    '<tools>',
    ...tools.map((tool) => JSON.stringify(declaration(tool).function)),
    '</tools>',
    '',
    'To call a function, answer with its name and arguments in JSON, like this:',
    TOOL_CALL_OPEN,
    '{"name": "function name", "arguments": {"parameter": "value"}}',
    TOOL_CALL_CLOSE,
  ].join('\n');
}

/** A tool in the form every template expects. */
export function declaration({ name, description, parameters }: PromptTool): {
  readonly type: 'function';
  readonly function: Readonly<Record<string, unknown>>;
} {
  return {
    type: 'function',
    function: {
      name,
      ...(description === null ? {} : { description }),
      ...(parameters === null ? {} : { parameters }),
    },
  };
}

/** Arguments as a value, since templates write JSON themselves; text that is not JSON stays text. */
export function argumentsValue(call: PromptToolCall): unknown {
  const json = jsonInText(call.arguments);
  return json === null ? call.arguments : json.value;
}

function asTextMessage(message: PromptMessage): PromptMessage {
  if (message.role === 'tool') {
    const wrapped = `<tool_response>\n${textOf(message.content)}\n</tool_response>`;
    return { ...message, role: 'user', content: wrapped, toolCallId: null };
  }
  if (message.toolCalls.length === 0) return message;
  const calls = message.toolCalls.map(callText).join('\n');
  return { ...message, content: appended(message.content, calls, '\n'), toolCalls: [] };
}

function callText(call: PromptToolCall): string {
  const json = JSON.stringify({ name: call.name, arguments: argumentsValue(call) });
  return `${TOOL_CALL_OPEN}\n${json}\n${TOOL_CALL_CLOSE}`;
}

function appended(
  content: PromptMessage['content'],
  text: string,
  gap = '\n\n',
): PromptMessage['content'] {
  if (typeof content !== 'string') return [...content, { type: 'text', text }];
  return content === '' ? text : content + gap + text;
}

function textOf(content: PromptMessage['content']): string {
  if (typeof content === 'string') return content;
  return content.map((part: PromptPart) => (part.type === 'text' ? part.text : '')).join('\n');
}

function systemMessage(content: string): PromptMessage {
  return { role: 'system', content, name: null, toolCalls: [], toolCallId: null };
}
