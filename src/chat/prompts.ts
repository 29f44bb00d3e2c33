/**
 * Owns the one way from messages to the ids of a prompt, and from generated ids back to text, for one vocabulary.
 * It must never have a second counter beside it: estimate, admission, cache and usage are this number.
 */
import type { Talk } from '../parsing/talk.js';
import type { TalkSource } from '../parsing/talk-source.js';
import type { PackedPrompt, TemplateRef } from '../parsing/tasks.js';
import type { TokenizerInfo } from '../plugin/contract.js';
import type { TokenizerRef } from '../pool/messages.js';
import type { CountedSegment, TokenCounter } from '../pool/token-counter.js';
import type { TextDecoder } from '../rules/answer.js';
import { chatPrompt } from '../rules/chat-prompt.js';
import { ChatTemplate } from '../rules/chat-template.js';
import { Detokenizer, tokenBytes } from '../rules/detokenizer.js';
import { imageSizeOfDataUrl } from '../rules/image-tokens.js';
import { assertPrefixStable } from '../rules/prefix-stability.js';
import type { PromptInput, PromptSegment } from '../rules/prompt.js';
import { floorParts, TokenFloor } from '../rules/token-floor.js';

export interface PromptsOptions {
  readonly counter: TokenCounter;
  readonly tokenizer: TokenizerRef;
  readonly info: TokenizerInfo;
  /** Replaces the template that came with the vocabulary. */
  readonly template: string | null;
}

export interface RenderedPrompt {
  ids(owner: string): Promise<Uint32Array>;
  /** Whether the prompt has at least so many tokens for certain, without encoding it. */
  reaches(tokens: number): boolean;
}

export class PromptRenderer {
  readonly #template: ChatTemplate;
  readonly #floor: TokenFloor;
  /** For the threads that render what is large. */
  readonly #ref: TemplateRef;

  /** @throws Error when the template cannot carry a cached prefix. */
  constructor(readonly options: PromptsOptions) {
    const { info, template } = options;
    const { special, bosToken, eosToken, addBos } = info;
    const source = { template: template ?? info.template, special, bosToken, eosToken, addBos };
    this.#template = new ChatTemplate(source);
    assertPrefixStable(this.#template);
    const floor = floorParts(info.vocabulary);
    this.#floor = new TokenFloor(floor);
    const { module, path } = options.tokenizer;
    this.#ref = { key: JSON.stringify([module, path, source.template]), source, floor };
  }

  get info(): TokenizerInfo {
    return this.options.info;
  }

  /**
   * @param images whether the model counts images by their pixels; else they are refused.
   * @returns ids of the whole prompt, the opening of the answer included.
   */
  async ids(owner: string, talk: Talk, images: boolean): Promise<Uint32Array> {
    return await (await this.render(talk, images)).ids(owner);
  }

  /** The whole prompt, not yet encoded; at once where the conversation is small. */
  render(talk: Talk, images: boolean): RenderedPrompt | Promise<RenderedPrompt> {
    const { near } = talk;
    return near === null ? this.#renderFar(talk, images, false) : this.#renderNear(near, images);
  }

  /** Ids of a prefix: of any chat that goes on from it, the first ones. */
  async prefixIds(owner: string, talk: Talk): Promise<Uint32Array> {
    const { near } = talk;
    if (near === null) return await (await this.#renderFar(talk, false, true)).ids(owner);
    const prompt = chatPrompt({ ...near, partial: false }, null);
    const rendered: PromptInput = { ...prompt, generationPrompt: false };
    return await this.#encode(owner, this.#template.render(rendered));
  }

  #renderNear(near: TalkSource, images: boolean): RenderedPrompt {
    const prompt = chatPrompt(near, images ? imageSizeOfDataUrl : null);
    const segments: readonly PromptSegment[] = this.#template.render(prompt);
    return {
      ids: async (owner) => await this.#encode(owner, segments),
      reaches: (tokens) => this.#floor.reaches(segments, tokens),
    };
  }

  async #renderFar(talk: Talk, images: boolean, prefix: boolean): Promise<RenderedPrompt> {
    const [packed] = await talk.render([this.#ref], { images, prefix });
    const { segments, tokensMin } = packed as PackedPrompt;
    return {
      ids: async (owner) => await this.#encode(owner, segments),
      reaches: (tokens) => tokensMin >= tokens,
    };
  }

  async #encode(owner: string, segments: readonly CountedSegment[]): Promise<Uint32Array> {
    const { counter, tokenizer } = this.options;
    return await counter.encode(owner, tokenizer, segments);
  }

  newDecoder(): TextDecoder {
    return new Detokenizer(this.info.vocabulary);
  }

  tokenBytes(id: number): Uint8Array {
    return tokenBytes(this.info.vocabulary, id);
  }
}
