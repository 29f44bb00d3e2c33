/**
 * Owns one running generation: what is asked of the engine, and its events turned into answers, choice by choice.
 * It must never run ahead of its listener by more than the stream's credit, nor know how an answer is sent.
 */
import { type Clock, wholeUs } from '../clock.js';
import { type ApiError, fromErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type { EngineEvent, GenerateTask, PrefillTask, SnapshotInfo } from '../plugin/contract.js';
import type { TokenStream, TokenStreamHandlers } from '../pool/token-stream.js';
import type { FinishReason } from '../protocol/completion.js';
import { type AnswerDelta, ChoiceAnswer } from '../rules/answer.js';
import type { ChatTimes } from '../telemetry/report.js';
import type { AdmissionQueue, Entrant } from './admission-queue.js';
import type { GenerationPlan } from './generation-plan.js';

/** Runs generations: the host process in production. */
export interface Inference {
  generate(task: GenerateTask, handlers: TokenStreamHandlers): TokenStream;
  /** `signal` ends it soon; then it rejects. */
  prefill(task: PrefillTask, signal: AbortSignal): Promise<SnapshotInfo>;
  /** See `Engine.holds`; absent: nobody can say. */
  holds?(task: PrefillTask): Promise<boolean>;
  forget(snapshot: string): Promise<void>;
}

export interface GenerationListener {
  /** The engine has said how many prompt tokens it will not evaluate. Once, first. */
  started(): void;
  delta(choice: number, delta: AnswerDelta): void;
  finished(choice: number, reason: FinishReason): void;
  /** After each batch of the above. A promise pauses the generation until it resolves. */
  batchEnd(): Promise<void> | null;
  /** Once, last. */
  ended(error: ApiError | null): void;
}

/** Credit is returned after this many pieces: a message for each would cost more than the pieces. */
const GRANT_PIECES = limits.creditPieces / 2;

type EngineUsage = Extract<EngineEvent, { readonly type: 'usage' }>;
type ChoiceEvent = Extract<EngineEvent, { readonly choice: number }>;

function pushed(answer: ChoiceAnswer, event: ChoiceEvent): AnswerDelta | null {
  switch (event.type) {
    case 'piece':
      return answer.push(event.ids, event.logprobs);
    case 'text':
      return answer.pushText(event.text, event.tokens, event.logprobs);
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

export class ChatGeneration implements TokenStreamHandlers, Entrant {
  readonly work: number;
  readonly times: GenerationTimes;
  readonly #answers: readonly ChoiceAnswer[];
  /** null while it waits for its turn. */
  #stream: TokenStream | null = null;
  #waits = false;
  /** Arrival of the current batch of events: reading the clock costs more than most events. */
  #eventsMs: number | null = null;
  #openChoices: number;
  #piecesRead = 0;
  #left = false;
  #started = false;
  #reusedTokens = 0;
  #usage: EngineUsage | null = null;

  constructor(
    readonly parts: GenerationParts,
    readonly plan: GenerationPlan,
    readonly listener: GenerationListener,
  ) {
    const { stop, toolMode } = plan;
    this.#answers = Array.from(
      { length: plan.task.choices },
      () => new ChoiceAnswer(plan.newDecoder(), { stop, toolMode }),
    );
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
    return this.plan.task.owner;
  }

  begin(): void {
    const { times, parts } = this;
    times.beganMs = this.#waits ? parts.clock.monotonicMs() : times.enteredMs;
    this.#stream = this.parts.inference.generate(this.plan.task, this);
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
    this.parts.queue.leave(error === null ? (endedMs ?? 0) - (beganMs ?? 0) : null);
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
    if (event.type === 'prefilled' || event.type === 'held') return;
    if (event.type === 'started') {
      this.#reusedTokens = event.reusedTokens;
      this.#started = true;
      this.times.startedMs = this.#nowMs();
      this.parts.load.waiting -= 1;
      this.parts.load.running += 1;
      // After a cancel the listener gets nothing but the end.
      if (!this.#left) this.listener.started();
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
    this.times.firstPieceMs ??= this.#nowMs();
    const answer = this.#answers[event.choice];
    if (answer === undefined || answer.finish !== null) return;
    const delta = pushed(answer, event);
    if (this.#left) return;
    if (delta !== null) this.listener.delta(event.choice, delta);
    if (answer.finish !== null) {
      this.#finish(event.choice, answer.finish, event.type !== 'finished');
    }
  }

  #finish(choice: number, reason: FinishReason, early: boolean): void {
    this.listener.finished(choice, reason);
    this.#openChoices -= 1;
    if (early) this.#stream?.cancel(this.#openChoices === 0 ? null : choice);
  }

  #grant(): void {
    if (this.#piecesRead < GRANT_PIECES) return;
    this.#stream?.grant(this.#piecesRead);
    this.#piecesRead = 0;
  }
}

function span(fromMs: number | null, toMs: number | null): number | null {
  return fromMs === null || toMs === null ? null : wholeUs(toMs - fromMs);
}

/** Prompt tokens to evaluate, and the longest answers. */
function workOf({ prompt, snapshot, maxTokens, choices }: GenerateTask): number {
  return prompt.length - (snapshot?.tokens ?? 0) + maxTokens * choices;
}
