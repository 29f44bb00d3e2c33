/**
 * Owns the chats of one request with several prompts: they run beside each other, and answer as one.
 * It must never evaluate a beginning twice that two of them share.
 */
import type { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { TokenLogprobs } from '../protocol/completion.js';
import type { ChoiceEnd } from '../protocol/wire-form.js';
import type { AnswerDelta, AnswerLogprob } from '../rules/answer.js';
import { sharedLength, sharingOrder } from '../rules/prompt-order.js';
import type { ChatTimes } from '../telemetry/report.js';
import {
  addedDrafts,
  type GenerationListener,
  type Place,
  type RunningChat,
} from './generation.js';
import type { ReadyChat } from './ready-chat.js';

/** One of them, with what decides when it begins. */
export interface GroupedChat extends ReadyChat {
  readonly ids: Uint32Array;
  /** Chats that its model runs at once. */
  readonly slots: number;
}

export class ChatGroup implements ReadyChat {
  #run: GroupRun | null = null;

  constructor(
    readonly first: GroupedChat,
    readonly chats: readonly GroupedChat[],
  ) {}

  get request() {
    return this.first.request;
  }

  get head() {
    return this.first.head;
  }

  get answer() {
    return this.first.answer;
  }

  get cache() {
    return this.first.cache;
  }

  get promotion() {
    return this.first.promotion;
  }

  get diagnosis() {
    return this.first.diagnosis;
  }

  get breakpoints() {
    return this.first.breakpoints;
  }

  get keptBytes() {
    return this.first.keptBytes;
  }

  get keepsConversation() {
    return this.chats.some(({ keepsConversation }) => keepsConversation);
  }

  get choices() {
    return sum(this.chats, ({ choices }) => choices);
  }

  get promptTokens() {
    return sum(this.chats, ({ promptTokens }) => promptTokens);
  }

  get tokensMax() {
    return sum(this.chats, ({ tokensMax }) => tokensMax);
  }

  async reviewInput(): Promise<void> {
    for (const chat of this.chats) await chat.reviewInput();
  }

  run(listener: GenerationListener): RunningChat {
    this.#run = new GroupRun(this.chats, listener);
    this.#run.begin();
    return this.#run;
  }

  times(run: RunningChat): ChatTimes {
    const before = this.chats.map((chat) => chat.times(run));
    const { cacheUs = 0 } = before[0] ?? {};
    return { ...run.spans, cacheUs, tokenizeUs: sum(before, ({ tokenizeUs }) => tokenizeUs) };
  }

  /** Of those that began. */
  usedPromptTokens(run: RunningChat | null): number {
    if (run === null) return this.promptTokens;
    const runs = this.#run?.runs ?? [];
    return sum([...runs.entries()], ([at, each]) =>
      each === null ? 0 : (this.chats[at]?.usedPromptTokens(each) ?? 0),
    );
  }

  newCallId(): string {
    return this.first.newCallId();
  }

  describeToken(token: AnswerLogprob): TokenLogprobs {
    return this.first.describeToken(token);
  }
}

class GroupRun implements RunningChat {
  /** By position of the prompt; null for one that has not begun. */
  readonly runs: (RunningChat | null)[];
  readonly #order: readonly number[];
  readonly #firstChoices: readonly number[];
  #begun = 0;
  #running = 0;
  /** The chat that began last evaluates its prompt. */
  #evaluates = false;
  #told = false;
  #left = false;
  #fault: ApiError | null = null;
  #isOver = false;

  constructor(
    readonly chats: readonly GroupedChat[],
    readonly listener: GenerationListener,
  ) {
    this.runs = chats.map(() => null);
    this.#order = sharingOrder(chats.map(({ ids }) => ids));
    this.#firstChoices = chats.map((_, at) => sum(chats.slice(0, at), ({ choices }) => choices));
  }

  /** As many as may run; one that shares its beginning with the one before waits until that is evaluated. */
  begin(): void {
    while (!this.#left && this.#fault === null && this.#mayBegin()) {
      const at = this.#order[this.#begun++] ?? 0;
      this.#running += 1;
      this.#evaluates = true;
      const part = new PartListener(this, this.#begun, this.#firstChoices[at] ?? 0);
      this.runs[at] = this.chats[at]?.run(part) ?? null;
    }
    if (this.#running === 0) this.#end();
  }

  #mayBegin(): boolean {
    const chat = this.#chat(this.#begun);
    if (chat === undefined) return false;
    const before = this.#chat(this.#begun - 1);
    if (this.#running === 0 || before === undefined) return true;
    if (this.#running >= chat.slots) return false;
    return !this.#evaluates || sharedLength(before.ids, chat.ids) < limits.prefixCopyTokensMin;
  }

  #chat(turn: number): GroupedChat | undefined {
    return this.chats[this.#order[turn] ?? -1];
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.listener.ended(this.#fault);
  }

  // ------------------------------------------------------- told by its chats

  partStarted(place: Place): void {
    if (this.#told) return;
    this.#told = true;
    this.listener.started(place);
  }

  /** @param turn of the chat, from 1. */
  evaluated(turn: number): void {
    if (turn !== this.#begun || !this.#evaluates) return;
    this.#evaluates = false;
    queueMicrotask(() => this.begin());
  }

  partEnded(turn: number, error: ApiError | null): void {
    this.#running -= 1;
    if (turn === this.#begun) this.#evaluates = false;
    if (error !== null) this.#fail(error);
    // Not before the constructor of a chat that is refused has returned.
    queueMicrotask(() => this.begin());
  }

  #fail(error: ApiError): void {
    if (this.#fault !== null) return;
    this.#fault = error;
    for (const run of this.runs) run?.cancel();
  }

  // ----------------------------------------------------------- as one chat

  cancel(): void {
    this.#left = true;
    for (const run of this.runs) run?.cancel();
  }

  get #begunRuns(): readonly RunningChat[] {
    return this.runs.filter((run) => run !== null);
  }

  tokens(choice: number | null): number {
    if (choice === null) return sum(this.#begunRuns, (run) => run.tokens(null));
    const at = this.#firstChoices.findLastIndex((first) => first <= choice);
    return this.runs[at]?.tokens(choice - (this.#firstChoices[at] ?? 0)) ?? 0;
  }

  get reasoningTokens(): number {
    return sum(this.#begunRuns, ({ reasoningTokens }) => reasoningTokens);
  }

  get preempted(): boolean {
    return this.#begunRuns.some(({ preempted }) => preempted);
  }

  get started(): boolean {
    return this.#told;
  }

  get reusedTokens(): number {
    return sum(this.#begunRuns, ({ reusedTokens }) => reusedTokens);
  }

  get cachedTokens(): number {
    return sum(this.#begunRuns, ({ cachedTokens }) => cachedTokens);
  }

  get drafts() {
    return this.#begunRuns.map(({ drafts }) => drafts).reduce(addedDrafts, { tried: 0, taken: 0 });
  }

  get promptTokens(): null {
    return null;
  }

  /** Of all chats together. */
  get spans() {
    const spans = this.#begunRuns.map((run) => run.spans);
    return {
      queueUs: sum(spans, ({ queueUs }) => queueUs),
      prefillUs: sum(spans, ({ prefillUs }) => prefillUs ?? 0),
      generateUs: sum(spans, ({ generateUs }) => generateUs ?? 0),
    };
  }
}

/** What one of the chats tells, with its choices numbered as those of the request. */
class PartListener implements GenerationListener {
  constructor(
    readonly group: GroupRun,
    readonly turn: number,
    readonly firstChoice: number,
  ) {}

  started(place: Place): void {
    this.group.partStarted(place);
  }

  delta(choice: number, delta: AnswerDelta): void {
    if (delta.type !== 'prompt') this.group.evaluated(this.turn);
    this.group.listener.delta(this.firstChoice + choice, delta);
  }

  finished(choice: number, end: ChoiceEnd): void {
    this.group.evaluated(this.turn);
    this.group.listener.finished(this.firstChoice + choice, end);
  }

  batchEnd(): Promise<void> | null {
    return this.group.listener.batchEnd();
  }

  ended(error: ApiError | null): void {
    this.group.partEnded(this.turn, error);
  }
}

function sum<Item>(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
