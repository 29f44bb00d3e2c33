/**
 * Owns the answer of a chat as a stream of chunks, and slows its generation down to its reader.
 * It must never open the stream before the engine has started: until then a failure is a plain error answer.
 */
import type { GenerationListener } from '../chat/generation.js';
import type { PreparedChat } from '../chat/service.js';
import type { Clock } from '../clock.js';
import type { ApiError } from '../errors.js';
import { ChunkWriter } from '../protocol/chunk-writer.js';
import type { FinishReason, Usage } from '../protocol/completion.js';
import type { AnswerDelta } from '../rules/answer.js';
import type { Exchange, Headers } from './exchange.js';
import { EventStream } from './sse.js';

export interface ChatStreamOptions {
  readonly exchange: Exchange;
  readonly chat: PreparedChat;
  readonly clock: Clock;
  /** Silence after which an empty chunk is sent. */
  readonly keepAliveMs: number;
  /** Asked for once the generation has started. */
  readonly headers: () => Headers;
  /** Usage so far, of one choice or of all together. */
  readonly usage: (choice: number | null) => Usage;
}

export class ChatStream implements GenerationListener {
  readonly #writer: ChunkWriter;
  readonly #unfinished: Set<number>;
  /** Tool calls of each choice so far. */
  readonly #calls = new Map<number, number>();
  readonly #settle: { resolve(succeeded: boolean): void; reject(error: ApiError): void };
  #events: EventStream | null = null;
  #fluent = true;
  /** Resolves when all but the end is sent, false after an error; rejects with one that came before it was opened. */
  readonly whole: Promise<boolean>;

  constructor(readonly options: ChatStreamOptions) {
    this.#writer = new ChunkWriter(options.chat.head);
    this.#unfinished = new Set(Array(options.chat.request.choices).keys());
    const settle = { resolve(_succeeded: boolean) {}, reject(_error: ApiError) {} };
    this.whole = new Promise((resolve, reject) => Object.assign(settle, { resolve, reject }));
    this.#settle = settle;
  }

  started(): void {
    const { exchange, clock, keepAliveMs } = this.options;
    const keepAlive = () => this.#keepAlive();
    this.#events = new EventStream(exchange, {
      clock,
      keepAlive,
      keepAliveMs,
      headers: this.options.headers(),
    });
    for (const choice of this.#unfinished) this.#send(this.#writer.role(choice));
    this.#events.flush();
  }

  delta(choice: number, delta: AnswerDelta): void {
    this.options.exchange.noteContent();
    if (delta.type === 'tool-call') {
      const id = this.options.chat.newCallId();
      const { name, arguments: text } = delta.call;
      const index = this.#calls.get(choice) ?? 0;
      this.#calls.set(choice, index + 1);
      this.#send(this.#writer.toolCall(choice, { index, id, name, arguments: '' }));
      this.#send(this.#writer.toolCall(choice, { index, arguments: text }));
      return;
    }
    const logprobs = delta.logprobs?.map((token) => this.options.chat.describeToken(token)) ?? null;
    this.#send(this.#writer.content(choice, delta.text, logprobs));
  }

  finished(choice: number, reason: FinishReason): void {
    this.#unfinished.delete(choice);
    this.#send(this.#writer.finish(choice, reason, this.options.usage(choice)));
  }

  batchEnd(): Promise<void> | null {
    if (this.#fluent || this.#events === null) return null;
    this.#fluent = true;
    return this.#events.drained();
  }

  ended(error: ApiError | null): void {
    if (this.#events === null && error !== null) {
      this.#settle.reject(error);
      return;
    }
    if (error !== null) {
      this.options.exchange.note.errorType = error.type;
      this.#events?.fail(error);
    } else if (this.options.chat.request.includeUsage && !this.options.exchange.gone) {
      this.#send(this.#writer.usage(this.options.usage(null)));
    }
    this.#settle.resolve(error === null);
  }

  /** The good end, where there was no other. */
  close(): void {
    this.#events?.done();
  }

  #keepAlive(): string {
    const [choice = 0] = this.#unfinished;
    return this.#writer.quiet(choice);
  }

  #send(chunk: string): void {
    this.#fluent = (this.#events?.send(chunk) ?? true) && this.#fluent;
  }
}
