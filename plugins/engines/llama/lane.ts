/**
 * Owns one context and what runs in it: who has which sequence, the prompts that are evaluated chunk by chunk,
 * and the batch of next tokens. It must never have two calls in its context at once; the scheduler calls it in turn.
 */
import type { TokenLogprob } from 'preface/plugin';
import type { BatchItem, Context } from './addon.js';
import { openConstraint } from './constraint.js';
import { type Choice, Generation } from './generation.js';
import type { Weights } from './native.js';
import { type Job, Prefill, type Prompt } from './prompt.js';
import { Prompts } from './prompts.js';
import { Sequences } from './sequences.js';
import type { ThreadChoice, Work } from './threads.js';

interface Next {
  readonly generation: Generation;
  readonly choice: Choice;
}

export interface LaneParts {
  readonly weights: Weights;
  readonly context: Context;
  readonly sequences: number;
  readonly window: number;
  readonly exact: boolean;
  readonly threads: ThreadChoice;
}

export class Lane {
  readonly active = new Set<Job>();
  readonly #sequences: Sequences;
  readonly #prompts: Prompts;

  constructor(private readonly parts: LaneParts) {
    const { context, sequences, window, exact } = parts;
    this.#sequences = new Sequences(context, sequences, window, exact);
    this.#prompts = new Prompts(this.#sequences, exact, (items, tokens) =>
      this.#evaluate('prompt', items, tokens),
    );
  }

  get hasFreeSlot(): boolean {
    return this.#sequences.hasFree;
  }

  get hasPrefill(): boolean {
    return this.#prompts.length > 0;
  }

  holds(prompt: Prompt): boolean {
    return this.#prompts.holds(prompt);
  }

  /** Settles the reused prefix, says so, and queues the rest of the prompt. */
  async admit(job: Job): Promise<void> {
    if (job instanceof Generation) await this.#openConstraints(job);
    this.active.add(job);
    const slot = await this.#prompts.start(job);
    if (!(job instanceof Generation)) return;
    const [first] = job.choices;
    if (first) first.slot = slot;
    job.start(job.prompt.reused);
  }

  async #openConstraints(generation: Generation): Promise<void> {
    const { constraint } = generation.task;
    if (!constraint) return;
    const open = await openConstraint(constraint, this.parts.weights);
    for (const choice of generation.choices) choice.constraint = open();
  }

  /** One step of one prompt. */
  async prefill(): Promise<void> {
    const step = await this.#prompts.step();
    if (!(step?.job instanceof Generation) || step.logit === null) return;
    const { job: generation, logit } = step;
    generation.prefilled = true;
    // The prompt's last logits serve all choices, also those that wait for a sequence.
    await Promise.all(
      generation.choices.map((choice) => this.#sample({ generation, choice }, logit)),
    );
  }

  /** Sees to those that nobody wants, frees what is done, and gives waiting choices their sequences. */
  async settle(): Promise<void> {
    for (const job of this.active) {
      if (job instanceof Generation) await this.#settle(job);
      else if (job.unwanted || (job instanceof Prefill && job.done)) this.#release(job);
    }
  }

  async #settle(generation: Generation): Promise<void> {
    for (const choice of generation.choices) {
      if (!choice.finished && generation.control.cancelled(choice.index))
        generation.finish(choice, 'stop');
    }
    const done = generation.choices.every((choice) => choice.finished);
    if (done || generation.unwanted) this.#release(generation);
    else if (generation.prefilled) await this.#placeChoices(generation);
  }

  #release(job: Job): void {
    this.active.delete(job);
    this.#prompts.drop(job);
    if (job instanceof Generation) for (const choice of job.choices) this.#free(choice);
    else if (job.prompt.slot) this.#sequences.release(job.prompt.slot);
    job.end();
  }

  #free(choice: Choice): void {
    if (choice.slot) this.#sequences.release(choice.slot);
    choice.slot = null;
  }

  async #placeChoices(generation: Generation): Promise<void> {
    const sequences = this.#sequences;
    const { length } = generation.task.prompt;
    for (const choice of generation.choices) {
      if (choice.slot || choice.finished) continue;
      const done = generation.choices.find((other) => other.finished && other.slot);
      const from = done ?? generation.choices.find((other) => other.slot);
      const slot = done?.slot ?? sequences.freeForCopy();
      if (!from?.slot || !slot) return;
      if (done) done.slot = null;
      else if ((await sequences.share(from.slot, slot, length)) < length) return;
      sequences.keep(slot, generation.task.owner, length);
      slot.busy = true;
      choice.slot = slot;
    }
    const waiting = generation.choices.some((choice) => !choice.slot && !choice.finished);
    // Without waiting choices a finished one frees its sequence for others at once.
    if (!waiting) {
      for (const choice of generation.choices) if (choice.finished) this.#free(choice);
    }
  }

  /** Empties what holds the snapshot. */
  forget(snapshot: string): void {
    this.#sequences.forget(snapshot);
  }

  /** Choices that can take a token now: placed, not finished, and their reader keeps up. */
  ready(): Next[] {
    const ready: Next[] = [];
    for (const generation of this.active) {
      if (!(generation instanceof Generation)) continue;
      for (const choice of generation.choices) {
        if (!choice.slot || choice.finished || choice.pending.length === 0) continue;
        if (generation.hasRoom(choice)) ready.push({ generation, choice });
      }
    }
    return ready;
  }

  /** One token for each. */
  async decode(ready: readonly Next[]): Promise<void> {
    const items: BatchItem[] = [];
    const batch: Next[] = [];
    for (const next of ready) {
      const { slot, pending } = next.choice;
      if (!slot) continue;
      const { sequence, tokens } = slot;
      items.push({ sequence, position: tokens.length, ids: pending, logits: true });
      batch.push(next);
    }
    const work = items.length > 1 ? 'batch' : 'single';
    const logits = await this.#evaluate(work, items, items.length);
    await Promise.all(
      batch.map((next, i) => {
        const { slot, pending } = next.choice;
        slot?.tokens.push(...pending);
        next.choice.pending = [];
        return this.#sample(next, logits[i] ?? 0);
      }),
    );
  }

  async #evaluate(work: Work, items: readonly BatchItem[], tokens: number): Promise<number[]> {
    const { context, threads } = this.parts;
    const startedAt = performance.now();
    const logits = await context.evaluate(items, threads.next(work));
    threads.took(work, performance.now() - startedAt, tokens);
    return logits;
  }

  async #sample(next: Next, logit: number): Promise<void> {
    const { generation, choice } = next;
    if (choice.finished || generation.unwanted) return;
    try {
      await this.#take(next, logit);
    } catch (cause) {
      // A grammar that fails costs its own task alone.
      generation.fail(cause);
    }
  }

  async #take({ generation, choice }: Next, logit: number): Promise<void> {
    const { task } = generation;
    choice.sampler ??= this.parts.weights.sampler();
    const config = choice.sampling.next(choice.constraint?.grammar ?? null);
    const id = await this.parts.context.sample(logit, choice.sampler, config);
    if (id < 0) throw new Error('no token could be sampled');
    if (task.endIds.includes(id) || this.parts.weights.isEnd(id)) {
      generation.finish(choice, 'stop');
      return;
    }
    const ids = choice.constraint?.take(id) ?? [id];
    for (const taken of ids) {
      const logprob =
        task.logprobs === null ? null : await this.#logprob(choice, logit, taken, task.logprobs);
      generation.emit(choice, taken, logprob);
      choice.pending.push(taken);
      if (choice.produced >= generation.maxTokens) break;
    }
    if (choice.constraint?.closed) generation.finish(choice, 'stop');
    else if (choice.produced >= generation.maxTokens) generation.finish(choice, 'length');
  }

  async #logprob(choice: Choice, logit: number, id: number, top: number): Promise<TokenLogprob> {
    choice.plain ??= this.parts.weights.sampler();
    const { pairs, weight, best } = await this.parts.context.logits(logit, choice.plain, id, top);
    const highest = Math.max(...pairs.map((pair) => pair.logit));
    const logprob = (value: number) => value - highest - Math.log(weight);
    const own = pairs.find((pair) => pair.id === id)?.logit ?? Number.NEGATIVE_INFINITY;
    return {
      id,
      logprob: logprob(own),
      top: best.map((pair) => ({ id: pair.id, logprob: logprob(pair.logit) })),
    };
  }

  async close(failure: Error): Promise<void> {
    for (const job of this.active) {
      job.fail(failure);
      job.end();
    }
    this.active.clear();
    await this.parts.context.close();
  }
}
