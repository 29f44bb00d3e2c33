/**
 * Owns the beginning that a cached prefix shares with every chat that goes on from it, and the check that there is one.
 * It must never give segments that a longer chat renders otherwise, nor let a template be served that shares nothing.
 */
import { ApiError } from '../errors.js';
import type { PromptInput, PromptMessage, PromptSegment, PromptTool } from './prompt.js';

/** @throws ApiError when the template refuses the messages. */
export type Render = (input: PromptInput) => PromptSegment[];

/** @throws Error that shows where the renderings differ. */
export function assertPrefixStable(template: {
  readonly renderPrefix: Render;
  render: Render;
}): void {
  const found = prefixBreak(
    (input) => template.render(input),
    (input) => template.renderPrefix(input),
  );
  if (found !== null) throw new Error(`the chat template does not keep prefixes: ${found}`);
}

/** Whether the first messages, rendered alone, are always the beginning of all: then a prefix is what they render to. */
export function keepsWhole(render: Render): boolean {
  return prefixBreak(render, render) === null;
}

/**
 * Of the segments that the messages render to alone, those that they keep whatever comes next. Some templates close the
 * last turn otherwise than an earlier one (gpt-oss), or leave the thoughts of earlier turns out (Qwen 3).
 */
export function sharedPrefix(render: Render, alone: PromptInput): PromptSegment[] {
  const last = alone.messages.at(-1);
  const open = { ...alone, generationPrompt: true };
  const after = continuations(last).map((more) => ({
    ...open,
    messages: [...alone.messages, ...more],
  }));
  let shared = render(alone);
  for (const input of [open, ...after]) {
    const whole = rendered(render, input, true);
    if (whole === null) continue;
    const at = shared.findIndex((segment, index) => !isSame(segment, whole[index]));
    if (at >= 0) shared = shared.slice(0, at);
  }
  return shared;
}

/** What may come next: a question, an answer, results of the calls that were made. */
function continuations(last: PromptMessage | undefined): readonly (readonly PromptMessage[])[] {
  const [question, answer] = [say('user', 'next'), say('assistant', 'then')];
  const calls = last?.toolCalls ?? [];
  const results = calls.map(({ id }) => say('tool', 'seen', { toolCallId: id }));
  if (results.length > 0) return [results, [...results, answer, question]];
  return [[question], [answer, question]];
}

/**
 * The first trial conversation whose beginning is not rendered as its prefix is, or null. A conversation that the template
 * refuses tells nothing: a chat of that form is refused, too. Some know no system message, others no tools without one.
 * @throws ApiError where it refuses even a question and its answer.
 */
export function prefixBreak(render: Render, prefixOf: Render): string | null {
  for (const { name, messages, tools } of trials) {
    for (const generationPrompt of [true, false]) {
      const mayRefuse = messages !== turns;
      const whole = rendered(render, prompt(messages, tools, generationPrompt), mayRefuse);
      if (whole === null) continue;
      for (let count = 1; count <= messages.length; count += 1) {
        const part = rendered(prefixOf, prompt(messages.slice(0, count), tools, false), mayRefuse);
        const at = part?.findIndex((segment, index) => !isSame(segment, whole[index])) ?? -1;
        const from = `${name}: ${count} of ${messages.length} messages`;
        if (part !== null && at >= 0) return `${from}, ${shown(part, whole, at)}`;
        // What is cut off of each prefix must leave something.
        if (part?.length === 0) return `${from}, nothing stays as it is`;
      }
    }
  }
  return null;
}

function rendered(render: Render, input: PromptInput, mayRefuse: boolean): PromptSegment[] | null {
  try {
    return render(input);
  } catch (cause) {
    if (mayRefuse && cause instanceof ApiError) return null;
    throw cause;
  }
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
