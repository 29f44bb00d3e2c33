/**
 * Owns the remembered shapes of prompts: the text that a template writes around plain contents.
 * It must never serve a template that changes, compares or leaves out a content, nor text that needs marks.
 */
import { limits } from '../limits/index.js';
import type { Marks } from './look-alikes.js';
import type { PromptInput, PromptSegment } from './prompt.js';

/** Renders with the template itself. */
export type RenderPrompt = (prompt: PromptInput) => PromptSegment[];

/** A special token, or texts of the template in turn with the numbers of the contents between them. */
type ShapePart = { readonly special: number } | readonly (string | number)[];

/** null: prompts with these roles must be rendered. */
export type Shape = readonly ShapePart[] | null;

export class PromptShapes {
  readonly #shapes = new Map<string, Shape>();

  constructor(
    readonly render: RenderPrompt,
    readonly marks: Marks,
  ) {}

  /** `contents` are those of the messages, which have only role and content. */
  segments(prompt: PromptInput, contents: readonly string[]): PromptSegment[] {
    const key = shapeKey(prompt);
    const shape = this.#shapes.get(key);
    if (shape === undefined) return this.#learn(key, prompt, contents);
    // Moves the shape to the end: the least recently used is dropped first.
    this.#shapes.delete(key);
    this.#shapes.set(key, shape);
    return shape === null ? this.render(prompt) : filled(shape, contents);
  }

  /** The first chat of a shape is made both ways; the template's result is taken. */
  #learn(key: string, prompt: PromptInput, contents: readonly string[]): PromptSegment[] {
    const segments = this.render(prompt);
    const shape = shapeOf(this.render, this.marks, prompt);
    const isTrue = fits(shape, contents, segments);
    const oldest = this.#shapes.keys().next();
    if (this.#shapes.size >= limits.promptShapesMax && !oldest.done) {
      this.#shapes.delete(oldest.value);
    }
    this.#shapes.set(key, isTrue ? shape : null);
    return segments;
  }
}

/** The shape for these roles; null when the template does more than write text around the contents. */
export function shapeOf(render: RenderPrompt, marks: Marks, prompt: PromptInput): Shape {
  const messages = prompt.messages.map((message, at) => ({ ...message, content: marks.image(at) }));
  const parts: ShapePart[] = [];
  for (const segment of render({ ...prompt, messages })) {
    if ('special' in segment) parts.push(segment);
    else if ('text' in segment) parts.push(textParts(segment.text, marks));
    else return null;
  }
  return parts;
}

function textParts(text: string, marks: Marks): (string | number)[] {
  const pieces = text.split(marks.imagePattern);
  return pieces.map((piece, at) => (at % 2 === 1 ? Number(piece) : piece));
}

/**
 * The contents of a prompt whose messages have only role and content, or null. A tool's message also names its call.
 */
export function plainContents(prompt: PromptInput): readonly string[] | null {
  const { messages, tools, continueLast, args } = prompt;
  if (args !== undefined || continueLast || (tools !== null && tools.length > 0)) return null;
  if (messages.length > limits.promptShapeMessagesMax) return null;
  const contents: string[] = [];
  for (const { content, name, toolCalls, toolCallId } of messages) {
    if (typeof content !== 'string' || content === '') return null;
    if (name !== null || toolCallId !== null || toolCalls.length > 0) return null;
    contents.push(content);
  }
  return contents;
}

/** Roles have different first letters. */
export function shapeKey({ messages, generationPrompt }: PromptInput): string {
  let key = generationPrompt ? '+' : '-';
  for (const { role } of messages) key += role.charAt(0);
  return key;
}

function filled(shape: readonly ShapePart[], contents: readonly string[]): PromptSegment[] {
  return shape.map((part) => {
    if ('special' in part) return part;
    let text = '';
    for (const piece of part) text += typeof piece === 'number' ? contents[piece] : piece;
    return { text };
  });
}

/** Whether the shape gives the template's own result for these contents. */
export function fits(
  shape: Shape,
  contents: readonly string[],
  segments: readonly PromptSegment[],
): boolean {
  return shape !== null && JSON.stringify(filled(shape, contents)) === JSON.stringify(segments);
}
