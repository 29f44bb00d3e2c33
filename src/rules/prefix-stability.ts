/**
 * Owns the check that a template renders the first messages as the beginning of all; cached prefixes depend on it.
 * It must never be skipped for a served model: a template that fails it would silently never reuse a prefix.
 */
import type { ChatTemplate } from './chat-template.js';
import type { PromptInput, PromptMessage, PromptSegment, PromptTool } from './prompt.js';

/** @throws Error that shows where the renderings differ. */
export function assertPrefixStable(template: ChatTemplate): void {
  const breakFound = prefixBreak(template);
  if (breakFound !== null)
    throw new Error(`the chat template does not keep prefixes: ${breakFound}`);
}

/** The first trial conversation whose beginning is not rendered as it is alone, or null. */
export function prefixBreak(template: ChatTemplate): string | null {
  for (const { name, messages, tools } of trials) {
    for (const generationPrompt of [true, false]) {
      const whole = template.render(prompt(messages, tools, generationPrompt));
      for (let count = 1; count <= messages.length; count += 1) {
        const part = template.render(prompt(messages.slice(0, count), tools, false));
        const at = part.findIndex((segment, index) => !isSame(segment, whole[index]));
        if (at >= 0)
          return `${name}: ${count} of ${messages.length} messages, ${shown(part, whole, at)}`;
      }
    }
  }
  return null;
}

function isSame(one: PromptSegment, other: PromptSegment | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function shown(
  part: readonly PromptSegment[],
  whole: readonly PromptSegment[],
  at: number,
): string {
  const [alone, within] = [part[at], whole[at]].map(
    (segment) => JSON.stringify(segment) ?? 'nothing',
  );
  return `segment ${at} is ${alone} alone and ${within} within`;
}

function prompt(
  messages: readonly PromptMessage[],
  tools: readonly PromptTool[] | null,
  generationPrompt: boolean,
): PromptInput {
  return { messages, tools, continueLast: false, generationPrompt };
}

function say(
  role: PromptMessage['role'],
  content: string,
  more: Partial<PromptMessage> = {},
): PromptMessage {
  return { role, content, name: null, toolCalls: [], toolCallId: null, ...more };
}

const turns = [say('user', 'first'), say('assistant', 'second'), say('user', 'third')];
const call = { id: 'functions.look:0', name: 'look', arguments: '{"at":"it"}' };
const called = [
  say('user', 'first'),
  say('assistant', '', { toolCalls: [call] }),
  say('tool', 'seen', { toolCallId: call.id }),
  say('assistant', 'second'),
  say('user', 'third'),
];
const tools: readonly PromptTool[] = [
  {
    name: 'look',
    description: 'Looks',
    parameters: { type: 'object', properties: { at: { type: 'string' } } },
  },
];

const trials: readonly {
  readonly name: string;
  readonly messages: readonly PromptMessage[];
  readonly tools: readonly PromptTool[] | null;
}[] = [
  { name: 'turns', messages: turns, tools: null },
  {
    name: 'turns after a system message',
    messages: [say('system', 'rule'), ...turns],
    tools: null,
  },
  { name: 'a call and its result', messages: called, tools },
  { name: 'a call after a system message', messages: [say('system', 'rule'), ...called], tools },
];
