/**
 * Owns the models: their queues, and which of them have a context within the memory budget.
 * It must never drop a context that is at work, nor make one that nobody has used, in this run or the last.
 */
import { type EngineModelSpec, type EngineOptions, limits } from 'preface/plugin';
import type { Exactness } from './certificate.js';
import { ContextRunner } from './context-runner.js';
import { LastOpened } from './last-opened.js';
import { type ContextPlan, contextPlan } from './memory.js';
import type { Weights } from './native.js';
import type { Job } from './prompt.js';
import type { ThreadChoice } from './threads.js';

interface Waiting {
  readonly job: Job;
  /** Order of arrival over all models. */
  readonly arrival: number;
}

/** Models with the same weights and window share one context. */
interface PooledContext {
  /** One of its models. */
  readonly model: string;
  readonly weights: Weights;
  /** Null where no equality is wanted. */
  readonly exactness: Exactness | null;
  readonly plan: ContextPlan;
  readonly queue: Waiting[];
  runner: ContextRunner | null;
  opening: boolean;
  usedAt: number;
}

export class ContextPool {
  onChange: () => void = () => {};
  readonly #contexts = new Map<string, PooledContext>();
  readonly #byModel = new Map<string, PooledContext>();
  #arrivals = 0;
  #closed = false;
  #openings: Promise<void>[] = [];
  readonly #lastOpened: LastOpened;

  constructor(
    private readonly options: EngineOptions,
    private readonly threads: ThreadChoice,
  ) {
    this.#lastOpened = new LastOpened(options.stateDir);
  }

  /** Opens the context that the last run opened last: the first chat after a restart need not wait for it. */
  async reopen(): Promise<void> {
    const model = await this.#lastOpened.take();
    const entry = model === null ? undefined : this.#byModel.get(model);
    // Somebody who came meanwhile has a better claim to the memory.
    const others = [...this.#contexts.values()].some(({ runner, opening }) => runner || opening);
    if (!entry || others) return;
    this.#open(entry);
    await Promise.all(this.#openings);
  }

  /** False when its context could never fit. */
  add(spec: EngineModelSpec, path: string, weights: Weights, exactness: Exactness | null): boolean {
    const { slots, memoryBytesMax } = this.options;
    const plan = contextPlan(weights.facts, spec.window, slots, memoryBytesMax);
    if (!plan) return false;
    const key = `${spec.window} ${path}`;
    const entry = this.#contexts.get(key) ?? {
      model: spec.id,
      weights,
      exactness,
      plan,
      queue: [],
      runner: null,
      opening: false,
      usedAt: 0,
    };
    this.#contexts.set(key, entry);
    this.#byModel.set(spec.id, entry);
    return true;
  }

  plan(model: string): ContextPlan | null {
    return this.#byModel.get(model)?.plan ?? null;
  }

  weights(model: string): Weights | null {
    return this.#byModel.get(model)?.weights ?? null;
  }

  exactness(model: string): Exactness | null {
    return this.#byModel.get(model)?.exactness ?? null;
  }

  enqueue(model: string, job: Job): void {
    let waiting = 0;
    for (const entry of this.#contexts.values()) waiting += entry.queue.length;
    if (waiting >= limits.engineQueueMax) {
      throw Object.assign(new Error(`more than ${limits.engineQueueMax} generations wait`), {
        code: 'overloaded',
      });
    }
    this.#byModel.get(model)?.queue.push({ job, arrival: this.#arrivals++ });
  }

  get idle(): boolean {
    return [...this.#contexts.values()].every(
      (entry) => entry.queue.length === 0 && !entry.runner?.active.size,
    );
  }

  runners(): ContextRunner[] {
    return [...this.#contexts.values()].flatMap((entry) => entry.runner ?? []);
  }

  async settle(): Promise<void> {
    for (const entry of this.#contexts.values()) {
      dropUnwanted(entry.queue);
      if (entry.runner) await this.guard(entry.runner, (runner) => runner.settle());
    }
  }

  /** Gives free sequences to those that wait, oldest first. */
  async admit(): Promise<void> {
    const waiting = [...this.#contexts.values()]
      .filter((entry) => entry.queue.length > 0)
      .sort((a, b) => (a.queue[0]?.arrival ?? 0) - (b.queue[0]?.arrival ?? 0));
    for (const entry of waiting) {
      if (entry.runner) await this.#admitTo(entry, entry.runner);
      // Later requests wait as well: otherwise the memory might never become free.
      else if (!entry.opening && !(await this.#makeRoom(entry))) return;
      else if (!entry.opening) this.#open(entry);
    }
  }

  async #admitTo(entry: PooledContext, runner: ContextRunner): Promise<void> {
    while (runner.hasFreeSlot) {
      const job = this.#next(entry, runner);
      if (!job) return;
      entry.usedAt = ++this.#arrivals;
      try {
        await runner.admit(job);
      } catch (cause) {
        job.fail(cause);
        if (!runner.active.has(job)) job.end();
      }
    }
  }

  /** The oldest that can begin; those that need the disk are let past while it is asked. */
  #next(entry: PooledContext, runner: ContextRunner): Job | null {
    for (const [i, { job }] of entry.queue.entries()) {
      const { prompt } = job;
      if (prompt.unprepared && !runner.holds(prompt)) prompt.prepare(() => this.onChange());
      if (prompt.preparing) continue;
      entry.queue.splice(i, 1);
      return job;
    }
    return null;
  }

  /** Empties every sequence that holds the snapshot. Between two steps only. */
  forget(snapshot: string): void {
    for (const runner of this.runners()) runner.forget(snapshot);
  }

  /** Disposes idle contexts, longest unused first, until the context's fits. */
  async #makeRoom(entry: PooledContext): Promise<boolean> {
    const open = [...this.#contexts.values()].filter((other) => other.runner || other.opening);
    let bytes = open.reduce((sum, other) => sum + other.plan.bytes, entry.plan.bytes);
    const idle = open.filter((other) => other.runner?.active.size === 0);
    for (const other of idle.sort((a, b) => a.usedAt - b.usedAt)) {
      if (bytes <= this.options.memoryBytesMax) break;
      await this.#drop(other, new Error('the context was disposed'));
      bytes -= other.plan.bytes;
    }
    return bytes <= this.options.memoryBytesMax;
  }

  #open(entry: PooledContext): void {
    entry.opening = true;
    const opening = this.#openRunner(entry)
      .catch((cause: unknown) => {
        for (const { job } of entry.queue.splice(0)) {
          job.fail(cause);
          job.end();
        }
      })
      .finally(() => {
        entry.opening = false;
        this.#openings = this.#openings.filter((other) => other !== opening);
        this.onChange();
      });
    this.#openings.push(opening);
  }

  async #openRunner(entry: PooledContext): Promise<void> {
    const { weights, plan, exactness } = entry;
    if (this.#closed) return;
    const flashAttention = exactness === null;
    const rows = Math.max(limits.prefillRowsMax, 4 * plan.sequences);
    const { window, sequences } = plan;
    const context = await weights.context({ window, sequences, flashAttention, rows });
    const { threads } = this;
    entry.runner = new ContextRunner({ weights, context, sequences, window, exactness, threads });
    await this.#lastOpened.note(entry.model);
  }

  /** A native failure leaves a context in an unknown state: its generations fail and it is made anew. */
  async guard(
    runner: ContextRunner,
    step: (runner: ContextRunner) => Promise<void>,
  ): Promise<void> {
    try {
      await step(runner);
    } catch (cause) {
      const entry = [...this.#contexts.values()].find((other) => other.runner === runner);
      const failure = cause instanceof Error ? cause : new Error(String(cause));
      if (entry) await this.#drop(entry, failure);
    }
  }

  async #drop(entry: PooledContext, failure: Error): Promise<void> {
    const { runner } = entry;
    entry.runner = null;
    await runner?.close(failure);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#openings);
    const failure = new Error('the engine was closed');
    const weights = new Set<Weights>();
    for (const entry of this.#contexts.values()) {
      for (const { job } of entry.queue.splice(0)) {
        job.fail(failure);
        job.end();
      }
      await this.#drop(entry, failure);
      weights.add(entry.weights);
    }
    for (const each of weights) await each.close();
  }
}

function dropUnwanted(queue: Waiting[]): void {
  for (let i = queue.length - 1; i >= 0; i--) {
    const job = queue[i]?.job;
    if (!job?.unwanted) continue;
    queue.splice(i, 1);
    job.end();
  }
}
