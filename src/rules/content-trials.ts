/**
 * Owns the trial that a template writes plain contents unchanged; remembered shapes depend on it.
 * It must never be skipped for a template whose prompts are put together without it.
 */
import type { Marks } from './look-alikes.js';
import type { PromptInput, PromptMessage, PromptRole } from './prompt.js';
import { fits, type RenderPrompt, type Shape, shapeKey, shapeOf } from './prompt-shapes.js';

export interface TrialSource {
  readonly template: string;
  readonly render: RenderPrompt;
  readonly marks: Marks;
  /** Texts that are always rendered need no trial. */
  isRisky(text: string): boolean;
}

export function passesContents(source: TrialSource): boolean {
  // A template that writes the date must not be remembered.
  if (source.template.includes('strftime_now')) return false;
  const shapes = new Map<string, Shape>();
  const passes = (prompt: PromptInput): boolean => {
    const key = shapeKey(prompt);
    const shape = shapes.get(key) ?? shapeOf(source.render, source.marks, prompt);
    shapes.set(key, shape);
    const contents = prompt.messages.map(({ content }) => String(content));
    return fits(shape, contents, source.render(prompt));
  };
  const texts = [...ODD_TEXTS, ...literalsOf(source.template)];
  try {
    return trialsOf(texts.filter((text) => !source.isRisky(text))).every(passes);
  } catch {
    // The template refuses one of the orders of roles, so its prompts must be rendered.
    return false;
  }
}

/** Blanks, line ends, texts that filters change, texts that conditions treat as something else. */
const ODD_TEXTS = [
  ...['a', ' a', 'a ', '\n\na', 'a\n\n', '\t a \r\n', ' ', '\n', '\u00a0a\u2003', '\ufeffa'],
  ...['0', 'false', 'none', 'None', '[]', '{}', '{"a": 1}', '{{ a }}', '{% a %}', "'\"\\'", '\\n'],
  ...[
    '<b>&amp;</b>',
    'aB Straße İ',
    'e\u0301 \ud83d\ude00',
    'a  b\n\n\nc',
    '# a\n- b',
    '</think>',
    'a,b|c',
  ],
  'long '.repeat(1000),
];

/** A template can only look for texts that it contains: each of them is tried, alone and within others. */
function literalsOf(template: string): string[] {
  const quoted = template.matchAll(/'((?:[^'\\]|\\[\s\S])*)'|"((?:[^"\\]|\\[\s\S])*)"/g);
  const literals = new Set(
    [...quoted].map(([, single, double]) => unescaped(single ?? double ?? '')),
  );
  literals.delete('');
  return [...literals].flatMap((text) => [text, `a ${text} b`]);
}

function unescaped(literal: string): string {
  const named: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };
  return literal.replace(/\\([\s\S])/g, (_, character: string) => named[character] ?? character);
}

/** Tries every text as first, inner and last content, of user and assistant, also beside itself. */
function trialsOf(texts: readonly string[]): PromptInput[] {
  const turns = (first: 0 | 1): PromptMessage[] =>
    texts.map((text, at) => say((at + first) % 2 === 0 ? 'user' : 'assistant', text));
  return [
    prompt(turns(0)),
    { ...prompt([say('system', 'a'), ...turns(1)]), generationPrompt: false },
    ...texts.map((text) => prompt([say('system', text), say('user', text)])),
    ...ODD_TEXTS.map((text) => prompt([say('user', text)])),
  ];
}

function say(role: PromptRole, content: string): PromptMessage {
  return { role, content, name: null, toolCalls: [], toolCallId: null };
}

function prompt(messages: readonly PromptMessage[]): PromptInput {
  return { messages, tools: null, continueLast: false, generationPrompt: true };
}
