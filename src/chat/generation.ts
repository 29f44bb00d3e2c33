/**
 * Owns one running generation: what is asked of the engine, and its events turned into answers, choice by choice.
 * It must never run ahead of its listener by more than the stream's credit, nor know how an answer is sent.
 */
import { type Clock, wholeUs } from '../clock.js';
import { type ApiError, fromErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type {
  DraftCounts,
  EngineEvent,
  ExactState,
  GenerateTask,
  ModelMemory,
  PrefillTask,
  SnapshotFile,
  SnapshotInfo,
  VectorTask,
} from '../plugin/contract.js';
import type { LargeImages } from '../pool/large-images.js';
import type { TokenStream, TokenStreamHandlers } from '../pool/token-stream.js';
import type { ChoiceEnd } from '../protocol/wire-form.js';
import { type AnswerDelta, type AnswerLogprob, ChoiceAnswer } from '../rules/answer.js';
import type { ChatTimes } from '../telemetry/report.js';
import type { AdmissionQueue, Entrant } from './admission-queue.js';
import type { GenerationPlan } from './generation-plan.js';

/** Runs generations: the host process in production. */
export interface Inference {
  /** @param images whose marks stand in the conversation of the task; their memory is given back. */
  generate(
    task: GenerateTask,
    handlers: TokenStreamHandlers,
    images: LargeImages | null,
  ): TokenStream;
  /** For models that make vectors; absent where there is none. */
  vectors?(task: VectorTask, handlers: TokenStreamHandlers): TokenStream;
  /** `signal` ends it soon; then it rejects. */
  prefill(task: PrefillTask, signal: AbortSignal): Promise<SnapshotInfo>;
  /** See `Engine.holds`; absent: nobody can say. */
  holds?(task: PrefillTask): Promise<boolean>;
  /** Whether a bucket has the prefix, from which the engine may fetch it; absent: there is none. */
  inBucket?(snapshot: Pick<SnapshotFile, 'name' | 'fingerprint'>): boolean;
  forget(snapshot: string): Promise<void>;
  /** See `EngineModel.vision`; absent: as it said at the start. */
  sees?(model: string): boolean | undefined;
  /** See `EngineModel.exact`. */
  exact?(model: string): ExactState | undefined;
  /** See `EngineModel.memory`. */
  memory?(model: string): ModelMemory | undefined;
  /** See `Engine.load` and `unload`. */
  load?(model: string): Promise<void>;
  unload?(model: string): Promise<void>;
}

/** What a generation keeps from others. */
export interface Place {
  /** Says that the reader of the answer keeps it, and how it is made to stop. @returns what is called when it reads on. */
  stalled(cut: () => void): () => void;
}

export interface GenerationListener {
  /** The engine has said how many prompt tokens it will not evaluate. Once, first. */
  started(place: Place): void;
  delta(choice: number, delta: AnswerDelta): void;
  finished(choice: number, end: ChoiceEnd): void;
  /** After each batch of the above. A promise pauses the generation until it resolves. */
  batchEnd(): Promise<void> | null;
  /** Once, last. */
  ended(error: ApiError | null): void;
}

/** Credit is returned after this many pieces: a message for each would cost more than the pieces. */
const GRANT_PIECES = limits.creditPieces / 2;

type EngineUsage = Extract<EngineEvent, { readonly type: 'usage' }>;
type ChoiceEvent = Extract<EngineEvent, { readonly choice: number }>;

function pushed(answer: ChoiceAnswer, event: ChoiceEvent): readonly AnswerDelta[] {
  switch (event.type) {
    case 'piece':
      return answer.push(event.ids, event.logprobs);
    case 'text':
      return answer.pushText(event.text, event.tokens, event.logprobs);
    case 'reasoning':
      return answer.pushReasoning(event.text, event.tokens);
    case 'call':
      return answer.pushCall(event);
    case 'finished':
      return answer.end(event.reason);
  }
}

/** How many generations there are now: those the engine has not begun, and those it has. */
export interface GenerationLoad {
  waiting: number;
  running: number;
}

export interface GenerationParts {
  readonly inference: Inference;
  readonly queue: AdmissionQueue;
  readonly load: GenerationLoad;
  readonly clock: Clock;
}

/** Monotonic milliseconds; null for what has not been yet. */
interface GenerationTimes {
  readonly enteredMs: number;
  beganMs: number | null;
  startedMs: number | null;
  firstPieceMs: number | null;
  endedMs: number | null;
}

/** A generation as those see it who write its answer down, or several that answer one request. */
export interface RunningChat {
  /** Tokens generated so far, by one choice or by all. */
  tokens(choice: number | null): number;
  /** Of these, the tokens of thoughts. */
  readonly reasoningTokens: number;
  /** The engine has said what it reuses. */
  readonly started: boolean;
  /** Prompt tokens the engine did not evaluate, as it said itself. */
  readonly reusedTokens: number;
  /** The same of the whole answer. */
  readonly cachedTokens: number;
  /** Tokens that were guessed and evaluated ahead, and how many of them came. */
  readonly drafts: DraftCounts;
  /** Where its time went so far. */
  readonly spans: Pick<ChatTimes, 'queueUs' | 'prefillUs' | 'generateUs'>;
  /** Prompt tokens as the upstream counted them; null where the count is ours. */
  readonly promptTokens: number | null;
  /** It gave its place to another chat, and its answer is not whole. */
  readonly preempted: boolean;
  /** Stops it; `ended` still comes. */
  cancel(): void;
}

export class ChatGeneration implements TokenStreamHandlers, Entrant, RunningChat, Place {
  readonly work: number;
  readonly times: GenerationTimes;
  readonly #answers: ChoiceAnswer[] = [];
  /** null while it waits for its turn. */
  #stream: TokenStream | null = null;
  #waits = false;
  /** Arrival of the current batch of events: reading the clock costs more than most events. */
  #eventsMs: number | null = null;
  #openChoices: number;
  #piecesRead = 0;
  #left = false;
  #started = false;
  #preempted = false;
  #reusedTokens = 0;
  #usage: EngineUsage | null = null;
  drafts: DraftCounts = { tried: 0, taken: 0 };

  constructor(
    readonly parts: GenerationParts,
    readonly plan: GenerationPlan,
    readonly listener: GenerationListener,
  ) {
    const { stop, toolMode, reasoning } = plan;
    for (let choice = 0; choice < plan.task.choices; choice += 1)
      this.#answers.push(new ChoiceAnswer(plan.newDecoder(), { stop, toolMode, reasoning }));
    this.#openChoices = plan.task.choices;
    this.work = workOf(plan.task);
    this.times = {
      enteredMs: parts.clock.monotonicMs(),
      beganMs: null,
      startedMs: null,
      firstPieceMs: null,
      endedMs: null,
    };
    parts.load.waiting += 1;
    parts.queue.enter(this);
    this.#waits = this.#stream === null;
  }

  get owner(): string {
    return this.plan.account;
  }

  begin(): void {
    const { times, parts } = this;
    times.beganMs = this.#waits ? parts.clock.monotonicMs() : times.enteredMs;
    this.#stream = this.parts.inference.generate(this.plan.task, this, this.plan.images);
  }

  /** Ends a microtask later, so that a refusal never comes before the constructor has returned. */
  refuse(error: ApiError | null): void {
    queueMicrotask(() => this.#over(error));
  }

  /** Tokens generated so far, by one choice or by all. */
  tokens(choice: number | null): number {
    if (choice !== null) return this.#answers[choice]?.tokens ?? 0;
    return this.#answers.reduce((sum, answer) => sum + answer.tokens, 0);
  }

  /** Of these, the tokens of thoughts. */
  get reasoningTokens(): number {
    return this.#answers.reduce((sum, answer) => sum + answer.reasoningTokens, 0);
  }

  /** The engine has said what it reuses. */
  get started(): boolean {
    return this.#started;
  }

  /** Prompt tokens the engine did not evaluate, as it said itself. */
  get reusedTokens(): number {
    return this.#reusedTokens;
  }

  /** Where its time went so far. */
  get spans(): Pick<ChatTimes, 'queueUs' | 'prefillUs' | 'generateUs'> {
    const { enteredMs, startedMs, firstPieceMs, endedMs } = this.times;
    return {
      queueUs: span(enteredMs, startedMs ?? endedMs) ?? 0,
      prefillUs: span(startedMs, firstPieceMs),
      generateUs: span(firstPieceMs, endedMs),
    };
  }

  /** Prompt tokens as the upstream counted them; null where the count is ours. */
  get promptTokens(): number | null {
    return this.#usage?.promptTokens ?? null;
  }

  /** Of the whole answer. A server says it at the end, and may have reused more than the prefix it was asked for. */
  get cachedTokens(): number {
    return this.#usage?.reusedTokens ?? this.#reusedTokens;
  }

  get isBackground(): boolean {
    return this.plan.isBackground;
  }

  get isSeveral(): boolean {
    return this.plan.task.choices > 1;
  }

  get preempted(): boolean {
    return this.#preempted;
  }

  preempt(): void {
    this.#preempted = true;
    this.cancel();
  }

  stalled(cut: () => void): () => void {
    return this.parts.queue.stalled({ chat: this, cut });
  }

  /** Stops the generation; `ended` still comes. */
  cancel(): void {
    this.#left = true;
    if (this.#stream !== null) this.#stream.cancel(null);
    else if (this.parts.queue.drop(this)) this.refuse(null);
  }

  onEvents(events: readonly EngineEvent[]): void {
    this.#eventsMs = null;
    for (const event of events) this.#take(event);
    const pause = this.#left ? null : this.listener.batchEnd();
    if (pause === null) this.#grant();
    else void pause.then(() => this.#grant());
  }

  onEnd(error: Parameters<TokenStreamHandlers['onEnd']>[0]): void {
    this.#over(error === null ? null : fromErrorValue(error));
    const { beganMs, endedMs } = this.times;
    const isWhole = error === null && !this.#preempted;
    this.parts.queue.leave(isWhole ? (endedMs ?? 0) - (beganMs ?? 0) : null, this);
  }

  #over(error: ApiError | null): void {
    const { load, clock } = this.parts;
    if (this.#started) load.running -= 1;
    else load.waiting -= 1;
    this.times.endedMs = clock.monotonicMs();
    this.listener.ended(error);
  }

  #nowMs(): number {
    this.#eventsMs ??= this.parts.clock.monotonicMs();
    return this.#eventsMs;
  }

  #take(event: EngineEvent): void {
    if (event.type === 'prefilled' || event.type === 'held' || event.type === 'vectors') return;
    if (event.type === 'started') {
      this.#reusedTokens = event.reusedTokens;
      this.#started = true;
      this.times.startedMs = this.#nowMs();
      this.parts.load.waiting -= 1;
      this.parts.load.running += 1;
      // After a cancel the listener gets nothing but the end.
      if (!this.#left) this.listener.started(this);
      if (this.plan.echo !== null) this.#prompt(this.plan.echo, null);
      return;
    }
    if (event.type === 'scored') {
      this.#piecesRead += 1;
      this.#prompt('', event.logprobs);
      return;
    }
    if (event.type === 'usage') {
      this.#usage = event;
      event.completionTokens.forEach((tokens, choice) => {
        this.#answers[choice]?.count(tokens);
      });
      return;
    }
    // A piece after a cancel has used up credit too.
    if (event.type !== 'finished') this.#piecesRead += 1;
    if (event.type === 'piece' && event.drafts)
      this.drafts = addedDrafts(this.drafts, event.drafts);
    this.times.firstPieceMs ??= this.#nowMs();
    const answer = this.#answers[event.choice];
    if (answer === undefined || answer.finish !== null) return;
    const deltas = pushed(answer, event);
    if (this.#left) return;
    for (const delta of deltas) this.listener.delta(event.choice, delta);
    if (answer.finish !== null) {
      const end = { finishReason: answer.finish, stopString: answer.stopString };
      this.#finish(event.choice, end, event.type !== 'finished');
    }
  }

  #prompt(text: string, logprobs: readonly AnswerLogprob[] | null): void {
    if (this.#left) return;
    for (const choice of this.#answers.keys())
      this.listener.delta(choice, { type: 'prompt', text, logprobs });
  }

  #finish(choice: number, end: ChoiceEnd, early: boolean): void {
    this.listener.finished(choice, end);
    this.#openChoices -= 1;
    if (early) this.#stream?.cancel(this.#openChoices === 0 ? null : choice);
  }

  #grant(): void {
    if (this.#piecesRead < GRANT_PIECES) return;
    this.#stream?.grant(this.#piecesRead);
    this.#piecesRead = 0;
  }
}

export function addedDrafts(one: DraftCounts, other: DraftCounts): DraftCounts {
  return { tried: one.tried + other.tried, taken: one.taken + other.taken };
}

function span(fromMs: number | null, toMs: number | null): number | null {
  return fromMs === null || toMs === null ? null : wholeUs(toMs - fromMs);
}

/** Prompt tokens to evaluate, and the longest answers. */
function workOf({ prompt, snapshot, maxTokens, choices }: GenerateTask): number {
  return prompt.length - (snapshot?.tokens ?? 0) + maxTokens * choices;
}
