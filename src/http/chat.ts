/**
 * Owns `POST /v1/chat/completions`: from the body to one answer or one stream, and what it used.
 * It must never leave a generation running for a client that left.
 */
import type { CacheUse } from '../chat/cache-use.js';
import type { ChatCaller } from '../chat/catalog.js';
import type { ChatGeneration, GenerationListener } from '../chat/generation.js';
import type { ChatService, PreparedChat } from '../chat/service.js';
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { completion, type Usage } from '../protocol/completion.js';
import type { TokenUsage } from '../rules/account.js';
import type { ChatNote } from '../telemetry/report.js';
import { cacheHeaders, nearestHeader } from './cache-headers.js';
import { ChatReply } from './chat-reply.js';
import { ChatStream } from './chat-stream.js';
import type { Exchange, Headers } from './exchange.js';
import type { Gate } from './gate.js';
import { rateHeaders } from './rate-headers.js';
import { type Route, route } from './router.js';
import { serverTiming } from './server-timing.js';

export interface StreamPace {
  readonly clock: Clock;
  readonly keepAliveMs: number;
}

export function chatRoutes(gate: Gate, service: ChatService, pace: StreamPace): Route[] {
  const handle = gate.guard({ api: 'chat' }, async (exchange, caller) => {
    const chat = await opened(exchange, caller, service);
    const note = noteOf(chat);
    exchange.note.chat = note;
    if (chat.cache?.dryRun) {
      await replyDry(exchange, chat, chat.cache);
      return null;
    }
    await caller.admission.reserve(chat.tokensMax);
    await chat.reviewInput();
    if (!chat.keepsConversation) exchange.hold(0);
    const run = new ChatRun(exchange, chat, note, rateHeaders(caller.admission.rates()));
    await (chat.request.stream ? run.stream(pace) : run.reply());
    return run.used;
  });
  return [route('POST', '/v1/chat/completions', handle)];
}

/** What came is not in reach of the handler, so that it goes as soon as nothing of it is needed. */
async function opened(
  exchange: Exchange,
  caller: ChatCaller,
  service: ChatService,
): Promise<PreparedChat> {
  const bytes = await exchange.body();
  return await service.prepare(caller, {
    bytes,
    header: (name) => exchange.header(name),
    hold: (held) => exchange.hold(held),
  });
}

function isRejected(cause: unknown): boolean {
  return cause instanceof ApiError && cause.row === 'contentFilter';
}

/** Answers with what a run would say of the cache. */
async function replyDry(exchange: Exchange, chat: PreparedChat, cache: CacheUse): Promise<void> {
  const usage = { promptTokens: chat.promptTokens, completionTokens: 0, cachedTokens: null };
  const nothing = { content: '', finishReason: 'stop', toolCalls: [], logprobs: null } as const;
  exchange.replyJson(200, completion(chat.head, [nothing], usage), {
    ...cacheHeaders(await cache.foreseen()),
    ...nearestHeader(cache.nearest),
  });
}

function noteOf({ head, request, promptTokens, cache }: PreparedChat): ChatNote {
  return {
    model: head.model,
    stream: request.stream,
    promptTokens,
    cachedTokens: 0,
    completionTokens: 0,
    cacheStatus: cache?.predicted().status ?? null,
    missClass: cache?.predicted().missClass ?? null,
    times: null,
  };
}

class ChatRun {
  #generation: ChatGeneration | null = null;

  constructor(
    readonly exchange: Exchange,
    readonly chat: PreparedChat,
    readonly note: ChatNote,
    readonly rates: Headers,
  ) {}

  async reply(): Promise<void> {
    const reply = new ChatReply(this.chat, () => this.exchange.noteContent());
    try {
      await this.#run(reply);
    } catch (cause) {
      if (!isRejected(cause)) throw cause;
      // The client pays for what was generated, although the filter keeps it back.
      this.exchange.replyError(cause, this.rates);
      return;
    }
    if (this.exchange.gone) return;
    this.exchange.replyJson(200, reply.body(this.#usage(null)), this.#headers());
  }

  async stream(pace: StreamPace): Promise<void> {
    const { exchange, chat } = this;
    const usage = (choice: number | null) => this.#usage(choice);
    const headers = () => this.#headers();
    const stream = new ChatStream({ exchange, chat, ...pace, usage, headers });
    await this.#run(stream);
    // The end leaves after the cache is settled, so that the client's next request sees the cache as this chat left it.
    stream.close();
  }

  /** What the account is charged for, also when the client left in the middle. */
  get used(): TokenUsage {
    return this.#usage(null);
  }

  /** Resolves also when the client left. The cache is settled before a failure reaches the client. */
  async #run(listener: GenerationListener & { readonly whole: Promise<boolean> }): Promise<void> {
    const generation = this.chat.run(listener);
    this.#generation = generation;
    this.exchange.onGone(() => generation.cancel());
    let succeeded = false;
    try {
      succeeded = await listener.whole;
    } finally {
      this.#noteEnd(generation);
      await this.chat.cache?.settle(generation, succeeded);
    }
  }

  /** Notes how far the chat came, with the counts that the account is charged for. */
  #noteEnd(generation: ChatGeneration): void {
    const { note } = this;
    note.promptTokens = this.chat.usedPromptTokens(generation);
    note.cachedTokens = generation.cachedTokens;
    note.completionTokens = generation.tokens(null);
    // A generation that never began has no times.
    if (generation.started) note.times = this.chat.times(generation);
    const outcome = this.chat.cache?.outcome(generation.reusedTokens);
    note.cacheStatus = outcome?.status ?? null;
    note.missClass = outcome?.missClass ?? null;
  }

  /** Complete once the engine has said what it reuses. */
  #headers(): Headers {
    const { chat } = this;
    const generation = this.#generation as ChatGeneration;
    const headers = { ...this.rates, ...serverTiming(this.note.times ?? chat.times(generation)) };
    if (chat.cache === null) return headers;
    return { ...headers, ...cacheHeaders(chat.cache.outcome(generation.reusedTokens)) };
  }

  #usage(choice: number | null): Usage & TokenUsage {
    return {
      promptTokens: this.chat.usedPromptTokens(this.#generation),
      completionTokens: this.#generation?.tokens(choice) ?? 0,
      cachedTokens: this.#generation?.cachedTokens ?? 0,
    };
  }
}
