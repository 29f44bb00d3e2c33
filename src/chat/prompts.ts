/**
 * Owns the one way from messages to the ids of a prompt, and from generated ids back to text, for one vocabulary.
 * It must never have a second counter beside it: estimate, admission, cache and usage are this number.
 */
import type { TokenizerInfo } from '../plugin/contract.js';
import type { TokenizerRef } from '../pool/messages.js';
import type { TokenCounter } from '../pool/token-counter.js';
import type { TextDecoder } from '../rules/answer.js';
import { chatPrompt, type PromptSource, type ReadImage } from '../rules/chat-prompt.js';
import { ChatTemplate } from '../rules/chat-template.js';
import { Detokenizer, tokenBytes } from '../rules/detokenizer.js';
import { assertPrefixStable } from '../rules/prefix-stability.js';
import type { PromptInput, PromptSegment } from '../rules/prompt.js';
import { TokenFloor } from '../rules/token-floor.js';

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

  /** @throws Error when the template cannot carry a cached prefix. */
  constructor(readonly options: PromptsOptions) {
    const { info, template } = options;
    this.#template = new ChatTemplate({ ...info, template: template ?? info.template });
    assertPrefixStable(this.#template);
    this.#floor = new TokenFloor(info.vocabulary);
  }

  get info(): TokenizerInfo {
    return this.options.info;
  }

  /**
   * @param readImage null for a model that takes text only.
   * @returns ids of the whole prompt, the opening of the answer included.
   */
  async ids(
    owner: string,
    source: PromptSource,
    readImage: ReadImage | null,
  ): Promise<Uint32Array> {
    return await this.render(source, readImage).ids(owner);
  }

  /** The whole prompt, not yet encoded. */
  render(source: PromptSource, readImage: ReadImage | null): RenderedPrompt {
    const segments = this.#template.render(chatPrompt(source, readImage));
    return {
      ids: async (owner) => await this.#encode(owner, segments),
      reaches: (tokens) => this.#floor.reaches(segments, tokens),
    };
  }

  /** Ids of a prefix: the first ids of any chat that continues it. */
  async prefixIds(
    owner: string,
    { messages, tools }: Pick<PromptSource, 'messages' | 'tools'>,
  ): Promise<Uint32Array> {
    const prompt = chatPrompt({ messages, tools, partial: false }, null);
    const rendered: PromptInput = { ...prompt, generationPrompt: false };
    return await this.#encode(owner, this.#template.render(rendered));
  }

  async #encode(owner: string, segments: readonly PromptSegment[]): Promise<Uint32Array> {
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
