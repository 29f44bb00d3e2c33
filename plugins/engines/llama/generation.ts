/**
 * Owns one task from its queue to its last event: its choices, its bounded events, its reader.
 * It must never touch a context; the scheduler moves it on.
 */
import {
  type DraftCounts,
  type EngineEvent,
  type GenerateControl,
  type GenerateTask,
  limits,
  type TokenLogprob,
} from 'preface/plugin';
import type { ConstraintState } from './constraint.js';
import type { Drafts } from './drafts.js';
import type { Job, Prompt } from './prompt.js';
import type { Sampler } from './sampler.js';
import type { Slot } from './slots.js';

export interface Choice {
  readonly index: number;
  sampler: Sampler | null;
  constraint: ConstraintState | null;
  slot: Slot | null;
  /** Ids that are out but not evaluated yet. */
  pending: number[];
  /** Guesses of its next tokens; null until it is alone. */
  drafts: Drafts | null;
  /** Guessed ids that are evaluated already, and out only if they are what is taken. */
  draft: number[];
  produced: number;
  finished: boolean;
  /** Its prompt is to be evaluated once more, since all sequences that held it went to others. */
  returns: boolean;
}

const NO_DRAFTS: DraftCounts = { tried: 0, taken: 0 };

export class Generation implements Job {
  readonly choices: readonly Choice[];
  readonly maxTokens: number;
  /** Set once the prompt is done; until then only the first choice has a slot. */
  prefilled = false;
  readonly #events: EngineEvent[] = [];
  /** Those that no event has told yet. */
  #drafts: DraftCounts = NO_DRAFTS;
  #started = false;
  /** Tokens of the prompt whose log-probabilities are told. */
  #scored = 0;
  #over = false;
  #abandoned = false;
  #failure: Error | null = null;
  #wakeReader: (() => void) | null = null;

  constructor(
    readonly task: GenerateTask,
    readonly control: GenerateControl,
    readonly prompt: Prompt,
    window: number,
    readonly wakeEngine: () => void,
  ) {
    this.maxTokens = Math.min(task.maxTokens, window - task.prompt.length);
    this.choices = Array.from({ length: task.choices }, (_, index) => ({
      index,
      sampler: null,
      constraint: null,
      slot: null,
      pending: [],
      drafts: null,
      draft: [],
      produced: 0,
      finished: false,
      returns: false,
    }));
    control.signal.addEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => {
    this.wakeReader();
    this.wakeEngine();
  };

  get account(): string {
    return this.prompt.account;
  }

  /** The next choice that has its first token but no sequence. */
  get waiting(): Choice | undefined {
    if (!this.prefilled || this.unwanted) return undefined;
    return this.choices.find(({ slot, finished, returns }) => !slot && !finished && !returns);
  }

  /** The reader left or the task failed; its sequences are to be freed. */
  get unwanted(): boolean {
    return this.control.signal.aborted || this.#abandoned;
  }

  /** Null at the end. Each call takes the oldest event, with all ids that are there by then. */
  async next(): Promise<EngineEvent | null> {
    for (;;) {
      if (this.#failure) throw this.#failure;
      if (this.control.signal.aborted) return null;
      const event = this.#events.shift();
      if (event) {
        this.wakeEngine();
        return this.#withDrafts(event);
      }
      if (this.#over) return null;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
  }

  #withDrafts(event: EngineEvent): EngineEvent {
    if (event.type !== 'piece' || this.#drafts === NO_DRAFTS) return event;
    const drafts = this.#drafts;
    this.#drafts = NO_DRAFTS;
    return { ...event, drafts };
  }

  start(reusedTokens: number): void {
    if (this.#started) return;
    this.#started = true;
    this.#push({ type: 'started', reusedTokens });
  }

  /** Tells the log-probabilities of the prompt that are known by now. */
  score(): void {
    const { promptLogprobs: most } = this.task;
    const { scores } = this.prompt;
    if (most === undefined || this.#scored === scores.length) return;
    const told = scores.slice(this.#scored);
    this.#scored = scores.length;
    const logprobs = told.map((token) => ({ ...token, top: token.top.slice(0, most) }));
    this.#push({ type: 'scored', logprobs });
  }

  emit(choice: Choice, id: number, logprob: TokenLogprob | null): void {
    choice.produced++;
    choice.sampler?.take(id);
    const index = this.#events.findLastIndex((e) => 'choice' in e && e.choice === choice.index);
    const last = this.#events[index];
    if (last?.type === 'piece') {
      const logprobs = logprob && last.logprobs ? [...last.logprobs, logprob] : null;
      this.#events[index] = { ...last, ids: [...last.ids, id], logprobs };
    } else {
      const logprobs = logprob === null ? null : [logprob];
      this.#push({ type: 'piece', choice: choice.index, ids: [id], logprobs });
    }
  }

  /** So many of its tokens are evaluated ahead. */
  drafted(count: number): void {
    const { tried, taken } = this.#drafts;
    this.#drafts = { tried: tried + count, taken };
  }

  /** One of them is what came. */
  accepted(): void {
    const { tried, taken } = this.#drafts;
    this.#drafts = { tried, taken: taken + 1 };
  }

  finish(choice: Choice, reason: 'stop' | 'length'): void {
    if (choice.finished) return;
    choice.finished = true;
    closeNative(choice);
    this.#push({ type: 'finished', choice: choice.index, reason });
  }

  /** Whether the reader has taken enough for another token of this choice. */
  hasRoom(choice: Choice): boolean {
    const piece = this.#events.find((e) => e.type === 'piece' && e.choice === choice.index);
    return piece?.type !== 'piece' || piece.ids.length < limits.runAheadTokens;
  }

  /** Nobody reads on. Samplers stay until the scheduler releases them. */
  abandon(): void {
    this.#abandoned = true;
    this.wakeEngine();
  }

  fail(cause: unknown): void {
    this.#failure ??= cause instanceof Error ? cause : new Error(String(cause));
    this.#abandoned = true;
    this.wakeReader();
  }

  /** Nothing more will come; what is there can still be read. Called between batches only. */
  end(): void {
    this.#over = true;
    this.control.signal.removeEventListener('abort', this.#onAbort);
    for (const choice of this.choices) closeNative(choice);
    this.prompt.close();
    this.wakeReader();
  }

  wakeReader(): void {
    this.#wakeReader?.();
    this.#wakeReader = null;
  }

  #push(event: EngineEvent): void {
    this.#events.push(event);
    this.wakeReader();
  }
}

/** Brings the prompt of a choice back into a sequence, after which the choice goes on. */
export class Return implements Job {
  readonly prompt: Prompt;

  constructor(
    readonly generation: Generation,
    readonly choice: Choice,
  ) {
    this.prompt = generation.prompt.again();
    choice.returns = true;
  }

  get account(): string {
    return this.generation.account;
  }

  get unwanted(): boolean {
    return this.generation.unwanted || this.choice.finished;
  }

  fail(cause: unknown): void {
    this.generation.fail(cause);
  }

  end(): void {
    this.choice.returns = false;
    this.prompt.close();
  }
}

/** Frees what the library holds for the choice. */
function closeNative(choice: Choice): void {
  choice.sampler?.close();
  choice.constraint?.close();
  choice.sampler = null;
}
