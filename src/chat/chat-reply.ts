/**
 * Owns the answer of a chat as one body: it collects the events of the generation and resolves after the last one.
 * It must never write to the exchange: the handler does, once. What it collects counts as memory of its account.
 */

import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import {
  type AnswerToolCall,
  type Choice,
  type FinishReason,
  JsonPieces,
  type TokenLogprobs,
  type Usage,
  wireToken,
} from '../protocol/completion.js';
import { JsonItems } from '../protocol/json-items.js';
import type { ChoiceEnd, LogprobWriter } from '../protocol/wire-form.js';
import type { AnswerDelta, AnswerLogprob } from '../rules/answer.js';
import type { GenerationListener } from './generation.js';
import type { ReadyChat } from './ready-chat.js';

export interface ChatReplyParts {
  /** Called with each piece of the answer. */
  readonly onContent: () => void;
  /** So many bytes more are held. @throws ApiError where the account or all of them would hold too much. */
  readonly hold: (bytes: number) => void;
  /** Ends the generation. */
  readonly stop: () => void;
}

class GatheredChoice {
  content = '';
  reasoning = '';
  finishReason: FinishReason = 'stop';
  stopString: string | null = null;
  readonly toolCalls: { -readonly [Key in keyof AnswerToolCall]: AnswerToolCall[Key] }[] = [];
  logprobs: LogprobWriter | null = null;

  whole(): Choice {
    const { content, reasoning, finishReason, stopString, toolCalls } = this;
    const logprobs = this.logprobs?.pieces() ?? null;
    return { content, reasoning, finishReason, stopString, toolCalls, logprobs };
  }
}

/** The items of a chat completion's list. */
class ChatLogprobs implements LogprobWriter {
  readonly #items = new JsonItems();

  add(tokens: readonly TokenLogprobs[]): number {
    return tokens.reduce((length, token) => {
      return length + this.#items.add(JSON.stringify(wireToken(token)));
    }, 0);
  }

  pieces(): readonly Uint8Array[] {
    return this.#items.pieces();
  }
}

export class ChatReply implements GenerationListener {
  readonly #choices: GatheredChoice[] = [];
  #resolve!: (succeeded: true) => void;
  #reject!: (error: ApiError) => void;
  /** UTF-16 units that are gathered and not counted yet. */
  #uncounted = 0;
  #fault: ApiError | null = null;
  /** Resolves when the generation has ended well: always true. */
  readonly whole: Promise<boolean>;

  constructor(
    readonly chat: ReadyChat,
    readonly parts: ChatReplyParts,
  ) {
    for (let choice = 0; choice < chat.choices; choice += 1)
      this.#choices.push(new GatheredChoice());
    this.whole = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  started(): void {}

  delta(choice: number, delta: AnswerDelta): void {
    if (this.#fault !== null) return;
    const gathered = this.#choices[choice] as GatheredChoice;
    this.parts.onContent();
    if (delta.type === 'reasoning') {
      gathered.reasoning += delta.text;
      this.#gathered(delta.text.length);
      return;
    }
    if (delta.type === 'call') {
      gathered.toolCalls.push({ id: this.chat.newCallId(), name: delta.name, arguments: '' });
      this.#gathered(delta.name.length);
      return;
    }
    if (delta.type === 'arguments') {
      const call = gathered.toolCalls[delta.index];
      if (call !== undefined) call.arguments += delta.text;
      this.#gathered(delta.text.length);
      return;
    }
    gathered.content += delta.text;
    this.#gathered(delta.text.length);
    if (delta.logprobs !== null && delta.logprobs.length > 0)
      this.#addLogprobs(gathered, delta.logprobs, delta.type === 'prompt');
  }

  #addLogprobs(to: GatheredChoice, tokens: readonly AnswerLogprob[], ofPrompt: boolean): void {
    to.logprobs ??= this.chat.answer.logprobs?.() ?? new ChatLogprobs();
    for (const token of tokens)
      this.#gathered(to.logprobs.add([this.chat.describeToken(token)], ofPrompt));
  }

  finished(choice: number, { finishReason, stopString }: ChoiceEnd): void {
    const gathered = this.#choices[choice] as GatheredChoice;
    gathered.finishReason = finishReason;
    gathered.stopString = stopString;
  }

  batchEnd(): null {
    return null;
  }

  ended(error: ApiError | null): void {
    const fault = this.#fault ?? error;
    if (fault === null) this.#resolve(true);
    else this.#reject(fault);
  }

  /** The JSON text of the whole answer. */
  body(usage: Usage): Buffer {
    const choices = this.#choices.map((choice) => choice.whole());
    return JsonPieces.textOf(this.chat.answer.whole(choices, usage));
  }

  /** Counted in steps: a call for each token would cost more than it is worth. */
  #gathered(length: number): void {
    this.#uncounted += length;
    if (this.#uncounted < limits.replyWholeBytesMax) return;
    try {
      this.parts.hold(this.#uncounted);
      this.#uncounted = 0;
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      this.#fault = cause;
      this.parts.stop();
    }
  }
}
