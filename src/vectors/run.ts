/**
 * Owns one task for vectors on its way through the queue and the engine.
 * It must never keep a vector: its reader takes each as it comes.
 */
import type { AdmissionQueue, Entrant } from '../chat/admission-queue.js';
import type { Inference } from '../chat/generation.js';
import type { Clock } from '../clock.js';
import { type ApiError, fromErrorValue } from '../errors.js';
import type { EngineEvent, VectorTask } from '../plugin/contract.js';
import type { TokenStream, TokenStreamHandlers } from '../pool/token-stream.js';

export interface VectorRunParts {
  readonly inference: Inference;
  readonly queue: AdmissionQueue;
  readonly clock: Clock;
  /** Tokens to evaluate. */
  readonly work: number;
  /** Of the next inputs, in order. What it throws ends the run. */
  readonly take: (vectors: readonly Float32Array[]) => void;
  readonly isBackground: boolean;
}

export class VectorRun implements Entrant, TokenStreamHandlers {
  /** Resolves at the end, also of one that was cancelled. */
  readonly ended: Promise<void>;
  /** As another server counted them; null where the count is ours. */
  promptTokens: number | null = null;
  /** Inputs whose vectors came. */
  #done = 0;
  #stream: TokenStream | null = null;
  #beganMs = 0;
  #cancelled = false;
  #preempted = false;
  #resolve = () => {};
  #reject: (cause: unknown) => void = () => {};

  constructor(
    readonly task: VectorTask,
    readonly parts: VectorRunParts,
  ) {
    this.ended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Who waits for it hears of a failure all the same.
    this.ended.catch(() => {});
    parts.queue.enter(this);
  }

  get owner(): string {
    return this.task.owner;
  }

  get work(): number {
    return this.parts.work;
  }

  get isBackground(): boolean {
    return this.parts.isBackground;
  }

  /** It gave its place to somebody who waits, and is not whole. */
  get preempted(): boolean {
    return this.#preempted;
  }

  preempt(): void {
    this.#preempted = true;
    this.cancel();
  }

  begin(): void {
    const { inference, clock } = this.parts;
    this.#beganMs = clock.monotonicMs();
    if (inference.vectors === undefined) throw new Error('the engine makes no vectors');
    this.#stream = inference.vectors(this.task, this);
  }

  refuse(error: ApiError): void {
    this.#reject(error);
  }

  /** What was evaluated, of a run that was cancelled, too. */
  get tokens(): number {
    if (this.promptTokens !== null) return this.promptTokens;
    if (!this.#cancelled) return this.work;
    const { inputs } = this.task;
    // Another server has no ids of ours. It answers with all vectors at once, and with its count behind them.
    if (inputs.length === 0) return this.#done > 0 ? this.work : 0;
    return inputs.slice(0, this.#done).reduce((sum, { length }) => sum + length, 0);
  }

  /** For a client that left. */
  cancel(): void {
    this.#cancelled = true;
    if (this.#stream !== null) this.#stream.cancel(null);
    else if (this.parts.queue.drop(this)) this.#resolve();
  }

  onEvents(events: readonly EngineEvent[]): void {
    if (this.#cancelled) return;
    try {
      for (const event of events) {
        if (event.type === 'vectors') {
          // They were evaluated, also where their reader has no room for them.
          this.#done += event.vectors.length;
          this.parts.take(event.vectors);
        } else if (event.type === 'usage') this.promptTokens = event.promptTokens;
      }
    } catch (cause) {
      this.#reject(cause);
      this.cancel();
    }
  }

  onEnd(error: Parameters<TokenStreamHandlers['onEnd']>[0]): void {
    const { queue, clock } = this.parts;
    if (error === null) this.#resolve();
    else this.#reject(fromErrorValue(error));
    const isWhole = error === null && !this.#preempted;
    queue.leave(isWhole ? clock.monotonicMs() - this.#beganMs : null, this);
  }
}
