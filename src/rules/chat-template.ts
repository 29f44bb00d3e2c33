/**
 * Owns the rendering of a prompt with the model's own chat template, into special tokens and text.
 * It must never let a client's text become a special token, nor render what the template refuses.
 */
import { Template } from '@huggingface/jinja';
import { invalid } from '../errors.js';
import { CallReader } from './call-reader.js';
import { passesContents } from './content-trials.js';
import { type ImageSize, imageTokens } from './image-tokens.js';
import { LookAlikes, type Marks, marksFor, specialPattern } from './look-alikes.js';
import { keepsWhole, sharedPrefix } from './prefix-stability.js';
import type { PromptInput, PromptMessage, PromptSegment } from './prompt.js';
import { PromptShapes, plainContents } from './prompt-shapes.js';
import { type TemplateValues, templateValues } from './template-values.js';
import { TOOL_CALL_CLOSE, TOOL_CALL_OPEN } from './tool-calls.js';
import { withToolsAsText } from './tool-prompt.js';

/** The part of a tokenizer that a template needs. */
export interface TemplateSource {
  readonly template: string;
  readonly special: Readonly<Record<string, number>>;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly addBos: boolean;
  /** Calls are read here, between the marks of this service; absent where another server reads them in the model's form. */
  readonly readsCalls?: true;
}

/** Stands for a patch of an image where the vocabulary has no token for it. No vocabulary is that long. */
export const IMAGE_ID = 0xff_ff_ff_ff;
const IMAGE_TOKENS = ['<|image|>', '<|image_pad|>', '<|media_pad|>'];

/** It is no text of the template language. */
export class BrokenTemplateError extends Error {}

export class ChatTemplate {
  readonly #template: Template;
  readonly #lookAlikes: LookAlikes;
  readonly #specials: RegExp;
  readonly #imageId: number;
  /** The template has a form of its own for tools, calls and results, and who reads the calls knows it. */
  readonly hasTools: boolean;
  /** It shows several calls of one message, between the marks that open and close one here. */
  readonly hasManyCalls: boolean;
  /** null: the template changes contents, so every prompt is rendered by it. */
  readonly #shapes: PromptShapes | null;
  /** Found out when it is first asked for. */
  #keepsWhole: boolean | null = null;

  /** @throws Error when there is none. */
  constructor(readonly source: TemplateSource) {
    if (source.template === '') {
      throw new Error('its file has no chat template; name one as `template` of the model');
    }
    const specials = Object.keys(source.special);
    this.#template = parsed(source.template);
    this.#lookAlikes = new LookAlikes(specials);
    this.#specials = specialPattern(specials);
    const imageToken = IMAGE_TOKENS.find((text) => Object.hasOwn(source.special, text)) ?? '';
    this.#imageId = source.special[imageToken] ?? IMAGE_ID;
    const shown = this.#shownTools();
    const hasForm = TRIAL_PARTS.every((part) => shown.includes(part));
    this.hasTools = hasForm && (source.readsCalls !== true || isRead(shown));
    this.hasManyCalls = this.hasTools && MANY_CALLS.test(shown);
    this.#shapes = this.#proveShapes();
  }

  /** @throws ApiError when the template itself refuses the messages. */
  render(input: PromptInput): PromptSegment[] {
    const prompt = this.hasTools ? input : withToolsAsText(input);
    const contents = this.#shapes === null ? null : plainContents(prompt);
    if (contents === null || contents.some((text) => this.#lookAlikes.isRisky(text))) {
      return this.#renderWhole(prompt);
    }
    return this.#shapes?.segments(prompt, contents) ?? this.#renderWhole(prompt);
  }

  /** What the first messages of a chat share with all that go on from them. @throws ApiError as `render`. */
  renderPrefix(input: PromptInput): PromptSegment[] {
    const alone = { ...input, generationPrompt: false };
    const render = (each: PromptInput) => this.render(each);
    this.#keepsWhole ??= keepsWhole(render);
    return this.#keepsWhole ? render(alone) : sharedPrefix(render, alone);
  }

  /** Remembers the text between plain contents, so that most prompts need no rendering. */
  get remembersShapes(): boolean {
    return this.#shapes !== null;
  }

  #proveShapes(): PromptShapes | null {
    const { template } = this.source;
    const marks = marksFor(template);
    const render = (prompt: PromptInput): PromptSegment[] => this.#renderWhole(prompt);
    const isRisky = (text: string): boolean => this.#lookAlikes.isRisky(text);
    const isProven = passesContents({ template, render, marks, isRisky });
    return isProven ? new PromptShapes(render, marks) : null;
  }

  #renderWhole(prompt: PromptInput): PromptSegment[] {
    let isRisky = prompt.continueLast || hasImages(prompt);
    const values = templateValues(prompt, {
      text: (text) => {
        isRisky ||= this.#lookAlikes.isRisky(text);
        return text;
      },
      image: () => '',
      end: '',
    });
    const writesTurn = prompt.generationPrompt && !prompt.continueLast;
    if (!isRisky) return this.#segments(this.#text(values, writesTurn), prompt, null);
    const marks = marksFor(JSON.stringify(values));
    const text = this.#text(this.#guarded(prompt, marks), writesTurn);
    return this.#segments(prompt.continueLast ? cutAt(text, marks.end) : text, prompt, marks);
  }

  #guarded(prompt: PromptInput, marks: Marks): TemplateValues {
    let images = 0;
    return templateValues(prompt, {
      text: (text) => this.#lookAlikes.guard(text, marks.divider),
      image: () => marks.image(images++),
      end: marks.end,
    });
  }

  #text({ messages, tools, args }: TemplateValues, writesTurn: boolean): string {
    try {
      return this.#template.render({
        ...args,
        messages,
        tools,
        add_generation_prompt: writesTurn,
        bos_token: this.source.bosToken,
        eos_token: this.source.eosToken,
      });
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw invalid(`the chat template of the model refuses the messages: ${reason}`, 'messages');
    }
  }

  #segments(text: string, prompt: PromptInput, marks: Marks | null): PromptSegment[] {
    const { special, bosToken, addBos } = this.source;
    const segments: PromptSegment[] = [];
    const images = imagesOf(prompt);
    const bos = special[bosToken];
    if (addBos && bos !== undefined && !text.startsWith(bosToken)) segments.push({ special: bos });
    let from = 0;
    const addText = (end: number): void => {
      if (end > from) this.#addText(segments, text.slice(from, end), images, marks);
    };
    for (const found of text.matchAll(this.#specials)) {
      addText(found.index);
      segments.push({ special: special[found[0]] ?? IMAGE_ID });
      from = found.index + found[0].length;
    }
    addText(text.length);
    return segments;
  }

  /** Removes the marks from the text and puts images in. */
  #addText(
    segments: PromptSegment[],
    text: string,
    images: readonly ImageSize[],
    marks: Marks | null,
  ): void {
    if (marks === null) {
      segments.push({ text });
      return;
    }
    const unmarked = text.replaceAll(marks.divider, '');
    for (const [at, piece] of unmarked.split(marks.imagePattern).entries()) {
      const image = at % 2 === 1 ? images[Number(piece)] : undefined;
      if (image !== undefined) {
        segments.push({ image: this.#imageId, tokens: imageTokens(image) });
      } else if (piece !== '') {
        segments.push({ text: piece });
      }
    }
  }

  /** Found by a trial: a template either shows tools, calls and results, or has no form for them. */
  #shownTools(): string {
    const pass = { text: (text: string) => text, image: () => '', end: '' };
    for (const calls of [2, 1]) {
      try {
        return this.#text(templateValues(trial(calls), pass), false);
      } catch {
        // It may refuse two calls in one message.
      }
    }
    return '';
  }
}

function parsed(template: string): Template {
  try {
    return new Template(template);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new BrokenTemplateError(`the chat template cannot be read: ${reason}`, { cause });
  }
}

function hasImages(prompt: PromptInput): boolean {
  return prompt.messages.some(
    ({ content }) => typeof content !== 'string' && content.some(({ type }) => type === 'image'),
  );
}

function imagesOf(prompt: PromptInput): ImageSize[] {
  const parts = prompt.messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content,
  );
  return parts.filter((part) => part.type === 'image');
}

function cutAt(text: string, end: string): string {
  const at = text.lastIndexOf(end);
  if (at < 0) {
    throw invalid('the chat template of the model cannot continue the last message', 'messages');
  }
  return text.slice(0, at);
}

const message = (role: PromptMessage['role'], content: string): PromptMessage => ({
  role,
  content,
  name: null,
  toolCalls: [],
  toolCallId: null,
});

/** A model that was shown calls in another form would write them so, and nobody would see that they are calls. */
function isRead(shown: string): boolean {
  return shown.split(TOOL_CALL_OPEN).some((text) => {
    const { parts } = new CallReader().push(text);
    const [name, args] = parts.map((part) => (part.type === 'name' ? part.name : part.text));
    return name === 'trial_tool' && args?.startsWith('{') && args.includes('trial_argument');
  });
}

const TRIAL_PARTS = ['trial_tool', 'trial_argument', 'trial_result'];
const MANY_CALLS = new RegExp(
  `${TOOL_CALL_OPEN}[^]*trial_argument[^]*${TOOL_CALL_CLOSE}\\s*${TOOL_CALL_OPEN}[^]*trial_argument`,
);

const trialCall = (position: number) => ({
  id: `functions.trial_tool:${position}`,
  name: 'trial_tool',
  arguments: '{"trial_argument":1}',
});

const trial = (calls: number): PromptInput => ({
  messages: [
    message('user', 'trial'),
    {
      ...message('assistant', ''),
      toolCalls: Array.from({ length: calls }, (_, position) => trialCall(position)),
    },
    { ...message('tool', 'trial_result'), toolCallId: trialCall(0).id },
  ],
  tools: [
    { name: 'trial_tool', description: 'trial', parameters: { type: 'object', properties: {} } },
  ],
  continueLast: false,
  generationPrompt: false,
});
