/**
 * Owns the answer of a chat as a stream of events, and slows its generation down to its reader.
 * It must never open the stream before the engine has started: until then a failure is a plain error answer.
 */
import type { GenerationListener, Place } from '../chat/generation.js';
import type { ReadyChat } from '../chat/ready-chat.js';
import type { Clock } from '../clock.js';
import type { ApiError } from '../errors.js';
import type { Usage } from '../protocol/completion.js';
import type { AnswerStream, ChoiceEnd } from '../protocol/wire-form.js';
import type { AnswerDelta } from '../rules/answer.js';
import { deltaEvents } from './chat-events.js';
import type { Exchange, Headers } from './exchange.js';
import { EventStream } from './sse.js';

export interface ChatStreamOptions {
  readonly exchange: Exchange;
  readonly chat: ReadyChat;
  readonly clock: Clock;
  /** Silence after which an event is sent that changes nothing. */
  readonly keepAliveMs: number;
  /** Asked for once the generation has started. */
  readonly headers: () => Headers;
  /** Usage so far, of one choice or of all together. */
  readonly usage: (choice: number | null) => Usage;
}

export class ChatStream implements GenerationListener {
  readonly #writer: AnswerStream;
  readonly #unfinished = new Set<number>();
  #resolve!: (succeeded: boolean) => void;
  #reject!: (error: ApiError) => void;
  #events: EventStream | null = null;
  #fluent = true;
  /** Resolves when all but the end is sent, false after an error; rejects with one that came before it was opened. */
  readonly whole: Promise<boolean>;

  constructor(readonly options: ChatStreamOptions) {
    this.#writer = options.chat.answer.stream();
    for (let choice = 0; choice < options.chat.choices; choice += 1) this.#unfinished.add(choice);
    this.whole = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  started(place: Place): void {
    const { exchange, clock, keepAliveMs } = this.options;
    const keepAlive = () => this.#keepAlive();
    this.#events = new EventStream(exchange, {
      clock,
      keepAlive,
      failed: (error) => this.#writer.failed(error),
      keepAliveMs,
      headers: this.options.headers(),
      stalled: (cut) => place.stalled(cut),
    });
    this.#send(this.#writer.begin(this.#unfinished, this.options.usage(null)));
    this.#events.flush();
  }

  delta(choice: number, delta: AnswerDelta): void {
    this.options.exchange.noteContent();
    this.#send(deltaEvents(this.#writer, this.options.chat, choice, delta));
  }

  finished(choice: number, end: ChoiceEnd): void {
    this.#unfinished.delete(choice);
    this.#send(this.#writer.finish(choice, end, this.options.usage(choice)));
  }

  batchEnd(): Promise<void> | null {
    if (this.#fluent || this.#events === null) return null;
    this.#fluent = true;
    return this.#events.drained();
  }

  ended(error: ApiError | null): void {
    if (this.#events === null && error !== null) {
      this.#reject(error);
      return;
    }
    if (error !== null) {
      this.options.exchange.note.errorType = error.type;
      this.#events?.fail(error);
    } else if (!this.options.exchange.gone) {
      this.#send(this.#writer.total(this.options.usage(null)));
    }
    this.#resolve(error === null);
  }

  /** The good end, where there was no other. */
  close(): void {
    this.#events?.end(this.#writer.end());
  }

  /** The bad end of an answer that was whole. */
  fail(error: ApiError): void {
    this.options.exchange.note.errorType = error.type;
    this.#events?.fail(error);
  }

  #keepAlive(): string {
    const [choice = 0] = this.#unfinished;
    return this.#writer.quiet(choice);
  }

  #send(events: string): void {
    this.#fluent = (this.#events?.send(events) ?? true) && this.#fluent;
  }
}
