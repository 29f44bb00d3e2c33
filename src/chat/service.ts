/**
 * Owns the stages of a chat between the parsed request and the engine: model, count, length, plan.
 * It must never see HTTP, nor read a message's text except through the counter.
 */
import type { Caches, FoundCache } from '../caches/caches.js';
import { type Clock, type NewBytes, unixS, wholeUs } from '../clock.js';
import type { CachedChat, Parser } from '../parsing/parser.js';
import type { Talk } from '../parsing/talk.js';
import type { ConversationRequest } from '../plugin/contract.js';
import { type CacheOptions, readCacheHeaders } from '../protocol/cache-options.js';
import type { ChatSettings } from '../protocol/chat.js';
import { type AnswerHead, newCompletionId, type TokenLogprobs } from '../protocol/completion.js';
import type { AnswerLogprob } from '../rules/answer.js';
import { answerTokensMax } from '../rules/token-budget.js';
import type { ChatTimes } from '../telemetry/report.js';
import { CacheUse, findCache } from './cache-use.js';
import type { Catalog, ChatCaller, ServedModel } from './catalog.js';
import { conversationRequest } from './conversation.js';
import { ChatGeneration, type GenerationListener, type GenerationLoad } from './generation.js';
import { planGeneration } from './generation-plan.js';
import type { Review } from './review.js';
import { ReviewedListener } from './reviewed-listener.js';

export interface ChatServiceOptions {
  readonly catalog: Catalog;
  readonly caches: Caches;
  readonly parser: Parser;
  readonly clock: Clock;
  readonly newBytes: NewBytes;
  /** null where no filter is configured. */
  readonly review: Review | null;
  /** Takes failures that must not fail a chat. */
  readonly report: (fault: unknown) => void;
  /** Takes lines for the operator. */
  readonly log: (line: string) => void;
}

/** A header's value by its lower-case name. */
export type ReadHeader = (name: string) => string | undefined;

/** What the client sent, and who counts what of it is held. */
export interface ChatBody {
  readonly bytes: Buffer;
  header: ReadHeader;
  /** Sets what of it takes memory now. @throws ApiError where there is no room. */
  hold(bytes: number): void;
}

interface Opened {
  readonly request: ChatSettings;
  readonly talk: Talk;
  readonly options: CacheOptions | null;
  readonly found: FoundCache | null;
  readonly foundMs: number;
}

export class ChatService {
  readonly load: GenerationLoad = { waiting: 0, running: 0 };
  readonly #otherCounts: OtherCounts;

  constructor(readonly options: ChatServiceOptions) {
    this.#otherCounts = new OtherCounts(options.log);
  }

  /** @throws ApiError for a bad request, an unknown model, a cache that is not there, or a prompt that is too long. */
  async prepare(caller: ChatCaller, body: ChatBody): Promise<PreparedChat> {
    const { catalog, caches, clock, newBytes, parser, report, review } = this.options;
    const requestMs = clock.nowMs();
    const owner = caller.user;
    const { request, talk, options, found, foundMs } = await this.#open(caller, body);
    body.hold(talk.heldBytes);
    const openedMs = clock.monotonicMs();
    const { model, ids } = await catalog.count(caller, request.model, talk, request.maxTokens);
    const countedMs = clock.monotonicMs();
    const maxTokens = answerTokensMax(ids.length, request.maxTokens, model.window);
    const prefills = (served: ServedModel, tokens: number) =>
      catalog.prefills(caller.policy, served, tokens);
    const parts = { caches, parser, report, owner, found, talk, model, ids, requestMs, prefills };
    const cache = options === null ? null : await CacheUse.open({ ...parts, options });
    const id = newCompletionId(newBytes);
    const head = { id, createdS: unixS(clock), model: model.id };
    const tokenizeUs = wholeUs(countedMs - openedMs);
    const cacheUs = cache === null ? 0 : wholeUs(foundMs + clock.monotonicMs() - countedMs);
    const said = await this.#said(model, request, talk, cache);
    if (said.conversation === null && review === null) body.hold(0);
    const plan = { owner, request, model, ids, maxTokens, head, cache, tokenizeUs, cacheUs };
    const shared = { newBytes, clock, load: this.load, otherCounts: this.#otherCounts };
    return new PreparedChat({ ...plan, ...shared, ...said, review }, review && talk);
  }

  /** What still has to be read of the conversation: an engine with ids needs none of it. */
  async #said(
    { engine }: ServedModel,
    request: ChatSettings,
    talk: Talk,
    cache: CacheUse | null,
  ): Promise<Said> {
    const { review } = this.options;
    const reads = engine.conversation || (review !== null && request.partial);
    const source = reads ? await talk.source() : null;
    const last = request.partial ? source?.messages.at(-1)?.content : '';
    return {
      conversation:
        source === null || !engine.conversation
          ? null
          : conversationRequest(request, source, cache?.prefixMessages ?? 0),
      before: typeof last === 'string' ? last : '',
    };
  }

  /** In the order of the contract: the request, its model, then the cache. */
  async #open(caller: ChatCaller, { bytes, header, hold }: ChatBody): Promise<Opened> {
    const { catalog, parser } = this.options;
    const opened = await parser.chat(caller.user, bytes, mayCompare(header));
    if (opened.type === 'cached') {
      hold(opened.heldBytes);
      return await this.#openCached(caller, opened);
    }
    const { settings: request, talk } = opened;
    catalog.find(request.model, caller.policy);
    const options = readCacheHeaders(header);
    if (options === null) return { request, talk, options, found: null, foundMs: 0 };
    return { request, talk, options, ...(await this.#find(caller.user, options)) };
  }

  /** The cached messages take the place of the message that names them. */
  async #openCached({ user, policy }: ChatCaller, chat: CachedChat): Promise<Opened> {
    this.options.catalog.find(chat.model, policy);
    const options = chat.options();
    const { found, foundMs } = await this.#find(user, options);
    const { settings: request, talk } = await chat.join(found?.stored() ?? null);
    return { request, talk, options, found, foundMs };
  }

  async #find(user: string, options: CacheOptions): Promise<Pick<Opened, 'found' | 'foundMs'>> {
    const { caches, clock } = this.options;
    const beganMs = clock.monotonicMs();
    const found = await findCache(caches, user, options);
    return { found, foundMs: clock.monotonicMs() - beganMs };
  }
}

/** Wrong headers count as a comparison here: their error is told in its turn. */
function mayCompare(header: ReadHeader): boolean {
  try {
    return readCacheHeaders(header) !== null;
  } catch {
    return true;
  }
}

/** A user's name has no blank, so this is no other user's name. */
function salted(owner: string, salt: string | null): string {
  return salt === null ? owner : `${owner} ${salt}`;
}

/** What is kept of the conversation of a chat that is counted. */
interface Said {
  /** For an engine that hands it on; null for one that works with ids. */
  readonly conversation: ConversationRequest | null;
  /** What the client wrote itself of the answer. */
  readonly before: string;
}

interface Prepared extends Said {
  readonly owner: string;
  readonly request: ChatSettings;
  readonly model: ServedModel;
  readonly ids: Uint32Array;
  readonly maxTokens: number;
  readonly head: AnswerHead;
  readonly newBytes: NewBytes;
  /** null when the chat names no cache. */
  readonly cache: CacheUse | null;
  readonly load: GenerationLoad;
  readonly clock: Clock;
  readonly tokenizeUs: number;
  readonly cacheUs: number;
  readonly review: Review | null;
  readonly otherCounts: OtherCounts;
}

/** Logs once for each model that its upstream counts otherwise than the tokenizer here. */
class OtherCounts {
  readonly #told = new Set<string>();

  constructor(readonly log: (line: string) => void) {}

  look(model: string, counted: number, byServer: number | null): void {
    if (byServer === null || byServer === counted || this.#told.has(model)) return;
    this.#told.add(model);
    this.log(
      `model ${model}: a prompt that has ${counted} tokens by its tokenizer here has ${byServer} by its upstream; ` +
        'usage is the upstream’s, estimates and bounds are ours: give the model the vocabulary and the template of its upstream',
    );
  }
}

/** A chat that passed every check and can run. */
export class PreparedChat {
  /** Until it is reviewed. */
  #reviewed: Talk | null;

  constructor(
    readonly prepared: Prepared,
    reviewed: Talk | null,
  ) {
    this.#reviewed = reviewed;
  }

  get request(): ChatSettings {
    return this.prepared.request;
  }

  get head(): AnswerHead {
    return this.prepared.head;
  }

  get promptTokens(): number {
    return this.prepared.ids.length;
  }

  /** Tokens of the prompt and the longest answers. */
  get tokensMax(): number {
    const { ids, maxTokens, request } = this.prepared;
    return ids.length + maxTokens * request.choices;
  }

  get cache(): CacheUse | null {
    return this.prepared.cache;
  }

  /** Where the time went, the steps before the run included. */
  times(generation: ChatGeneration): ChatTimes {
    const { tokenizeUs, cacheUs } = this.prepared;
    const { queueUs, prefillUs, generateUs } = generation.spans;
    return { queueUs, tokenizeUs, cacheUs, prefillUs, generateUs };
  }

  /** Reviews the prompt, the part from a cache too. @throws ApiError `contentFilter`, `unavailable`. */
  async reviewInput(): Promise<void> {
    const talk = this.#reviewed;
    this.#reviewed = null;
    if (talk !== null) await this.prepared.review?.check(await talk.texts());
  }

  /** Whether the run still needs the messages. */
  get keepsConversation(): boolean {
    return this.prepared.conversation !== null;
  }

  run(listener: GenerationListener): ChatGeneration {
    const { owner, request, model, ids, maxTokens, cache, load, clock, review } = this.prepared;
    const { conversation } = this.prepared;
    const { info } = model.prompts;
    const snapshot = cache?.snapshot ?? null;
    const plan = planGeneration(request, {
      model: model.id,
      owner: snapshot === null ? salted(owner, request.cacheSalt) : owner,
      ids,
      snapshot,
      maxTokens,
      endIds: info.endIds,
      newDecoder: () => model.prompts.newDecoder(),
      conversation,
    });
    const { inference, queue } = model;
    const parts = { inference, queue, load, clock };
    if (review === null) return new ChatGeneration(parts, plan, listener);
    // No event comes before `generation` is assigned.
    const stop = () => generation.cancel();
    const reviewed = new ReviewedListener(listener, { ...this.#reviewParts(review), stop });
    const generation = new ChatGeneration(parts, plan, reviewed);
    return generation;
  }

  #reviewParts(review: Review) {
    const { request, before } = this.prepared;
    const alternatives = (token: AnswerLogprob) =>
      this.describeToken(token).top.map(({ token: text }) => text);
    return { review, choices: request.choices, before, alternatives };
  }

  /** Call it after the end: an upstream's count, where there is one, is what the chat used. */
  usedPromptTokens(generation: ChatGeneration | null): number {
    const { ids, model, otherCounts } = this.prepared;
    const byServer = generation?.promptTokens ?? null;
    otherCounts.look(model.id, ids.length, byServer);
    return byServer ?? ids.length;
  }

  newCallId(): string {
    return `call_${this.prepared.newBytes(12).toString('hex')}`;
  }

  describeToken(token: AnswerLogprob): TokenLogprobs {
    if (!('id' in token)) return token;
    const { prompts } = this.prepared.model;
    const describe = ({ id, logprob }: { id: number; logprob: number }) => {
      const bytes = prompts.tokenBytes(id);
      return { token: Buffer.from(bytes).toString('utf8'), logprob, bytes: [...bytes] };
    };
    return { ...describe(token), top: token.top.map(describe) };
  }
}
