/**
 * Owns the values that chat templates read: messages and tools under the names their authors expect.
 * It must never decide what a text may contain; each text passes through the function it is given.
 */
import type { PromptInput, PromptMessage, PromptToolCall } from './prompt.js';
import { argumentsValue, declaration } from './tool-prompt.js';

export interface TemplateValues {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools: readonly unknown[] | null;
  readonly args: Readonly<Record<string, unknown>>;
}

/** How the parts of a message enter the template. */
export interface TextPass {
  text(text: string): string;
  image(): string;
  /** Ends the message that the answer continues. */
  readonly end: string;
}

export function templateValues(input: PromptInput, pass: TextPass): TemplateValues {
  const { messages, tools } = input;
  const open = input.continueLast ? messages.length - 1 : -1;
  return {
    messages: messages.map((message, at) =>
      messageValue(message, pass, at === open ? pass.end : ''),
    ),
    tools:
      tools === null || tools.length === 0
        ? null
        : tools.map((tool) => deep(declaration(tool), pass)),
    args: deep(input.args ?? {}, pass) as Readonly<Record<string, unknown>>,
  };
}

/** Roles are not a client's text, and templates compare them: they stay unmarked. */
function messageValue(
  { role, content, name, toolCalls, toolCallId }: PromptMessage,
  pass: TextPass,
  end: string,
): Record<string, unknown> {
  return {
    role,
    content: contentText(content, pass) + end,
    ...(name === null ? {} : { name: pass.text(name) }),
    ...(toolCallId === null ? {} : { tool_call_id: pass.text(toolCallId) }),
    ...(toolCalls.length === 0
      ? {}
      : { tool_calls: toolCalls.map((call) => callValue(call, pass)) }),
  };
}

function contentText(content: PromptMessage['content'], pass: TextPass): string {
  if (typeof content === 'string') return pass.text(content);
  return content
    .map((part) => (part.type === 'text' ? pass.text(part.text) : pass.image()))
    .join('\n');
}

function callValue(call: PromptToolCall, pass: TextPass): Record<string, unknown> {
  const { id, name } = call;
  const args = deep(argumentsValue(call), pass);
  return {
    id: pass.text(id),
    type: 'function',
    function: { name: pass.text(name), arguments: args },
  };
}

function deep(value: unknown, pass: TextPass): unknown {
  if (typeof value === 'string') return pass.text(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => deep(item, pass));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [pass.text(key), deep(item, pass)]),
  );
}
