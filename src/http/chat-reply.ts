/**
 * Owns the answer of a chat as one body: it collects the events of the generation and resolves after the last one.
 * It must never write to the exchange: the handler does, once.
 */
import type { GenerationListener } from '../chat/generation.js';
import type { PreparedChat } from '../chat/service.js';
import type { ApiError } from '../errors.js';
import {
  type AnswerToolCall,
  type Choice,
  completion,
  type FinishReason,
  type TokenLogprobs,
  type Usage,
  type WireCompletion,
} from '../protocol/completion.js';
import type { AnswerDelta } from '../rules/answer.js';

class GatheredChoice {
  content = '';
  finishReason: FinishReason = 'stop';
  readonly toolCalls: AnswerToolCall[] = [];
  logprobs: TokenLogprobs[] | null = null;
}

export class ChatReply implements GenerationListener {
  readonly #choices: readonly GatheredChoice[];
  readonly #settle: { resolve(succeeded: boolean): void; reject(error: ApiError): void };
  /** Resolves when the generation has ended well: always true. */
  readonly whole: Promise<boolean>;

  /** @param onContent called with each piece of the answer. */
  constructor(
    readonly chat: PreparedChat,
    readonly onContent: () => void,
  ) {
    this.#choices = Array.from({ length: chat.request.choices }, () => new GatheredChoice());
    const settle = { resolve(_succeeded: boolean) {}, reject(_error: ApiError) {} };
    this.whole = new Promise((resolve, reject) => Object.assign(settle, { resolve, reject }));
    this.#settle = settle;
  }

  started(): void {}

  delta(choice: number, delta: AnswerDelta): void {
    const gathered = this.#choices[choice] as GatheredChoice;
    this.onContent();
    if (delta.type === 'tool-call') {
      gathered.toolCalls.push({ id: this.chat.newCallId(), ...delta.call });
      return;
    }
    gathered.content += delta.text;
    if (delta.logprobs !== null) {
      gathered.logprobs ??= [];
      gathered.logprobs.push(...delta.logprobs.map((token) => this.chat.describeToken(token)));
    }
  }

  finished(choice: number, reason: FinishReason): void {
    (this.#choices[choice] as GatheredChoice).finishReason = reason;
  }

  batchEnd(): null {
    return null;
  }

  ended(error: ApiError | null): void {
    if (error === null) this.#settle.resolve(true);
    else this.#settle.reject(error);
  }

  body(usage: Usage): WireCompletion {
    const choices: Choice[] = this.#choices.map(
      ({ content, finishReason, toolCalls, logprobs }) => ({
        content,
        finishReason,
        toolCalls,
        logprobs,
      }),
    );
    return completion(this.chat.head, choices, usage);
  }
}
