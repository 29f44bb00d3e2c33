/**
 * Owns one chat from its parsed request to its end: how it is run, answered and counted, for every wire form.
 * It must never leave a generation running for a client that left, unless the chat is to end without it.
 */
import type { CacheUse } from '../chat/cache-use.js';
import { chatNote, noteEnd } from '../chat/chat-note.js';
import { ChatReply } from '../chat/chat-reply.js';
import type { GenerationListener, RunningChat } from '../chat/generation.js';
import type { ReadyChat } from '../chat/ready-chat.js';
import type { ChatBody, ChatService } from '../chat/service.js';
import type { Clock } from '../clock.js';
import { ApiError, fromErrorValue, toErrorValue } from '../errors.js';
import { type Choice, JsonPieces, type Usage } from '../protocol/completion.js';
import type { WireFormName } from '../protocol/wire-forms.js';
import type { TokenUsage } from '../rules/account.js';
import type { ChatNote } from '../telemetry/report.js';
import { adviceHeader, cacheHeaders, nearestHeader } from './cache-headers.js';
import { ChatStream } from './chat-stream.js';
import type { Exchange, Headers } from './exchange.js';
import type { Admitted } from './gate.js';
import { rateHeaders } from './rate-headers.js';
import { serverTiming } from './server-timing.js';

export interface StreamPace {
  readonly clock: Clock;
  readonly keepAliveMs: number;
}

/** Keeps an answer that has ended well, before its end leaves. */
export type KeepAnswer = () => Promise<void>;

export interface ChatOpening {
  readonly service: ChatService;
  readonly form: WireFormName;
  readonly earlier?: ChatBody['earlier'];
}

/** Every stage before the run. @returns null where a dry run was answered. @throws ApiError */
export async function openRun(
  exchange: Exchange,
  caller: Admitted,
  opening: ChatOpening,
): Promise<ChatRun | null> {
  const chat = await opened(exchange, caller, opening);
  const note = chatNote(chat);
  exchange.note.chat = note;
  if (chat.cache?.dryRun) {
    await replyDry(exchange, chat, chat.cache);
    return null;
  }
  await caller.admission.reserve(chat.tokensMax);
  await chat.reviewInput();
  await chat.breakpoints?.plan();
  if (!chat.keepsConversation) exchange.hold(chat.keptBytes);
  return new ChatRun(exchange, chat, note, rateHeaders(caller.admission.rates()));
}

/** What came is not in reach of the handler, so that it goes as soon as nothing of it is needed. */
async function opened(
  exchange: Exchange,
  caller: Admitted,
  { service, form, earlier }: ChatOpening,
): Promise<ReadyChat> {
  const bytes = await exchange.body(service.bodyBytesMax(form));
  return await service.prepare(caller, {
    form,
    bytes,
    header: (name) => exchange.header(name),
    hold: (held) => exchange.hold(held),
    ...(earlier === undefined ? {} : { earlier }),
  });
}

function isRejected(cause: unknown): boolean {
  return cause instanceof ApiError && cause.row === 'contentFilter';
}

const NOTHING: Choice = {
  content: '',
  reasoning: '',
  finishReason: 'stop',
  stopString: null,
  toolCalls: [],
  logprobs: null,
};

/** Answers with what a run would say of the cache. */
async function replyDry(exchange: Exchange, chat: ReadyChat, cache: CacheUse): Promise<void> {
  const usage = { promptTokens: chat.promptTokens, completionTokens: 0, cachedTokens: null };
  exchange.reply(200, JsonPieces.textOf(chat.answer.whole([NOTHING], usage)), {
    ...cacheHeaders(await cache.foreseen()),
    ...nearestHeader(cache.nearest),
  });
}

/** Tools that the client named and the model was not shown. */
function leftOutHeader(types: readonly string[] | undefined): Headers {
  return types === undefined ? {} : { 'Svc-Tools-Left-Out': types.join(', ') };
}

type WholeListener = GenerationListener & { readonly whole: Promise<boolean> };

export class ChatRun {
  #generation: RunningChat | null = null;

  constructor(
    readonly exchange: Exchange,
    readonly chat: ReadyChat,
    readonly note: ChatNote,
    readonly rates: Headers,
  ) {}

  async reply(keep?: KeepAnswer): Promise<void> {
    const reply = new ChatReply(this.chat, {
      onContent: () => this.exchange.noteContent(),
      hold: (bytes) => this.exchange.holdMore(bytes),
      stop: () => this.#generation?.cancel(),
    });
    try {
      await this.#run(reply);
    } catch (cause) {
      if (!isRejected(cause)) throw cause;
      // The client pays for what was generated, although the filter keeps it back.
      this.exchange.replyError(cause, this.rates);
      return;
    }
    if (this.exchange.gone) return;
    const body = reply.body(this.usage(null));
    try {
      await keep?.();
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      // What was generated is paid for: a conversation may be deleted meanwhile.
      this.exchange.replyError(cause, this.rates);
      return;
    }
    // From here on the reply counts, as long as it is sent.
    this.exchange.hold(0);
    this.exchange.reply(200, body, this.#headers());
  }

  async stream(pace: StreamPace, keep?: KeepAnswer): Promise<void> {
    const { exchange, chat } = this;
    const usage = (choice: number | null) => this.usage(choice);
    const headers = () => this.#headers();
    const stream = new ChatStream({ exchange, chat, usage, headers, ...pace });
    const succeeded = await this.#run(stream);
    try {
      if (succeeded && !exchange.gone) await keep?.();
    } catch (cause) {
      stream.fail(fromErrorValue(toErrorValue(cause)));
      return;
    }
    // The end leaves after the cache is settled, so that the client's next request sees the cache as this chat left it.
    stream.close();
  }

  /** What the account is charged for, also when the client left in the middle. */
  get used(): TokenUsage {
    return this.usage(null);
  }

  /** Runs it to its end, also when the client leaves. @returns false where it failed. */
  async detached(listener: WholeListener): Promise<boolean> {
    return await this.#run(listener, false);
  }

  cancel(): void {
    this.#generation?.cancel();
  }

  /** Resolves also when the client left. The cache is settled before a failure reaches the client. */
  async #run(listener: WholeListener, endsWithClient = true): Promise<boolean> {
    const generation = this.chat.run(listener);
    this.#generation = generation;
    if (endsWithClient) this.exchange.onGone(() => generation.cancel());
    let succeeded = false;
    try {
      succeeded = await listener.whole;
    } finally {
      noteEnd(this.note, this.chat, generation);
      if (generation.started)
        this.chat.diagnosis?.settle(this.chat.promptTokens, generation.reusedTokens);
      await this.chat.cache?.settle(generation, succeeded);
      await this.chat.breakpoints?.settle(succeeded);
      await this.chat.promotion?.settle(generation, succeeded);
    }
    return succeeded;
  }

  /** Complete once the engine has said what it reuses. */
  #headers(): Headers {
    const { chat } = this;
    const generation = this.#generation as RunningChat;
    return Object.assign(
      serverTiming(this.note.times ?? chat.times(generation)),
      this.rates,
      adviceHeader(chat.diagnosis?.advice ?? null),
      leftOutHeader(chat.request.echo?.leftOut),
      chat.cache && cacheHeaders(chat.cache.outcome(generation.reusedTokens)),
    );
  }

  /** Of one choice, or of all together. */
  usage(choice: number | null): Usage & TokenUsage {
    const cachedTokens = this.#generation?.cachedTokens ?? 0;
    return {
      promptTokens: this.chat.usedPromptTokens(this.#generation),
      completionTokens: this.#generation?.tokens(choice) ?? 0,
      cachedTokens,
      reasoningTokens: this.#generation?.reasoningTokens ?? 0,
      kept: this.chat.breakpoints?.kept(this.#generation) ?? null,
    };
  }
}
