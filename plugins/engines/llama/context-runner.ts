/**
 * Owns one context and what runs in it: who has which sequence, the prompts that are evaluated chunk by chunk,
 * and the batch of next tokens. It must never have two calls in its context at once; the scheduler calls it in turn.
 */
import { limits } from 'preface/plugin';
import type { Exactness } from './certificate.js';
import type { ConstraintState } from './constraint.js';
import type { BatchItem, Context } from './context.js';
import { type Choice, Generation } from './generation.js';
import { logprobOf } from './logprobs.js';
import type { Weights } from './native.js';
import { type Job, Prefill, type Prompt } from './prompt.js';
import { Prompts } from './prompts.js';
import { choiceSettings } from './sampling.js';
import { Sequences } from './sequences.js';
import { chunkLength } from './slots.js';
import type { ThreadChoice, Work } from './threads.js';

interface Next {
  readonly generation: Generation;
  readonly choice: Choice;
}

export interface ContextRunnerParts {
  readonly weights: Weights;
  readonly context: Context;
  readonly sequences: number;
  readonly window: number;
  readonly exactness: Exactness | null;
  readonly threads: ThreadChoice;
}

export class ContextRunner {
  readonly active = new Set<Job>();
  readonly #sequences: Sequences;
  readonly #prompts: Prompts;
  /** Choices whose grammar looks for their next token. */
  #atGrammar = 0;

  constructor(private readonly parts: ContextRunnerParts) {
    const { context, sequences, window } = parts;
    const exact = parts.exactness !== null;
    this.#sequences = new Sequences(context, sequences, window, parts.exactness);
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
    this.active.add(job);
    const slot = await this.#prompts.start(job);
    if (!(job instanceof Generation)) return;
    const [first] = job.choices;
    if (first) first.slot = slot;
    job.start(job.prompt.reused);
  }

  /** One step of one prompt, of so many rows at most. */
  async prefill(rowsMax: number): Promise<void> {
    const step = await this.#prompts.step(rowsMax);
    if (!(step?.job instanceof Generation) || step.logit === null) return;
    const { job: generation, logit } = step;
    generation.prefilled = true;
    // The prompt's last logits serve all choices, also those that wait for a sequence.
    await this.#sampleAll(
      generation.choices.map((choice) => ({ generation, choice })),
      () => logit,
    );
  }

  /** True while a stream has no next token yet because its grammar is at work. */
  get awaitsGrammar(): boolean {
    return this.#atGrammar > 0;
  }

  get hasIdleWork(): boolean {
    return this.#sequences.toReevaluate() !== null;
  }

  /**
   * Evaluates a chunk of an answer again, while nobody waits: its tokens were evaluated one by one, and that gives other
   * bits than a prompt with the same tokens would have.
   */
  async idle(): Promise<void> {
    const slot = this.#sequences.toReevaluate();
    if (!slot) return;
    const { again, sequence, tokens } = slot;
    const grain = this.parts.exactness?.grain ?? 1;
    const whole = again.length - ((tokens.length + again.length) % grain);
    const length = chunkLength(whole, limits.reevaluatedChunkTokens, grain);
    const chunk = again.slice(0, length);
    slot.again = [];
    if (length < 2) return;
    const item = { sequence, position: tokens.length, ids: chunk, logits: false };
    await this.#evaluate('prompt', [item], length);
    tokens.push(...chunk);
    slot.exactLength = tokens.length;
    slot.again = again.slice(length);
    if (slot.again.length < 2) await this.#sequences.checkpoint(slot);
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
      if (slot.tokens.length < length) throw new Error('the prompt of a choice was lost');
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
    const most = this.parts.exactness?.decodeRows ?? items.length;
    for (let at = 0; at < items.length; at += most)
      await this.#decode(items.slice(at, at + most), batch.slice(at, at + most));
  }

  async #decode(items: readonly BatchItem[], batch: readonly Next[]): Promise<void> {
    const work = items.length > 1 ? 'batch' : 'single';
    const logits = await this.#evaluate(work, items, items.length);
    for (const next of batch) {
      const { slot, pending } = next.choice;
      slot?.tokens.push(...pending);
      next.choice.pending = [];
    }
    await this.#sampleAll(batch, (i) => logits[i] ?? 0);
  }

  async #evaluate(work: Work, items: readonly BatchItem[], tokens: number): Promise<number[]> {
    const { context, threads } = this.parts;
    const startedAt = performance.now();
    const logits = await context.evaluate(items, threads.next(work));
    threads.took(work, performance.now() - startedAt, tokens);
    return logits;
  }

  /** Grammars get a moment, so that their choices join the next batch; one that takes longer joins a later batch. */
  async #sampleAll(batch: readonly Next[], rowOf: (index: number) => number): Promise<void> {
    const pending = batch.flatMap((next, i) => this.#sample(next, rowOf(i)) ?? []);
    if (pending.length > 0) await within(limits.grammarTurnMs, Promise.all(pending));
  }

  /** A promise for a choice with a grammar: it has its next token when the grammar has had its turns. */
  #sample(next: Next, row: number): Promise<void> | null {
    const { generation, choice } = next;
    const { weights, context } = this.parts;
    if (choice.finished || generation.unwanted) return null;
    try {
      const logits = context.logits(row);
      choice.sampler ??= weights.sampler(choiceSettings(generation.task.sampling, choice.index));
      // The library's own are good until its next batch.
      if (choice.constraint) return this.#takeWithin(next, choice.constraint, logits.slice());
      const id = choice.sampler.next(logits);
      if (!this.#ends(next, id)) this.#put(next, [id], logits, false);
    } catch (cause) {
      generation.fail(cause);
    }
    return null;
  }

  async #takeWithin(next: Next, constraint: ConstraintState, logits: Float32Array): Promise<void> {
    const { generation, choice } = next;
    // A choice that ended meanwhile has let go of its sampler and its grammar.
    const over = () => choice.finished || generation.unwanted;
    this.#atGrammar += 1;
    try {
      const { sampler } = choice;
      const { grammar } = constraint;
      if (!sampler) return;
      const id = await (grammar ? sampler.nextWithin(logits, grammar) : sampler.next(logits));
      if (over() || this.#ends(next, id)) return;
      const ids = await constraint.take(id);
      const closed = await constraint.closed();
      if (over()) return;
      this.#put(next, ids, logits, closed);
    } catch (cause) {
      // A grammar that fails costs its own task alone.
      if (!over()) generation.fail(cause);
    } finally {
      this.#atGrammar -= 1;
      generation.wakeEngine();
    }
  }

  #ends({ generation, choice }: Next, id: number): boolean {
    const ends = generation.task.endIds.includes(id) || this.parts.weights.isEnd(id);
    if (ends) generation.finish(choice, 'stop');
    return ends;
  }

  /** @param closed nothing can come after them. */
  #put(next: Next, ids: readonly number[], logits: Float32Array, closed: boolean): void {
    const { generation, choice } = next;
    const { task } = generation;
    for (const taken of ids) {
      const logprob = task.logprobs === null ? null : logprobOf(logits, taken, task.logprobs);
      generation.emit(choice, taken, logprob);
      choice.pending.push(taken);
      if (choice.produced >= generation.maxTokens) break;
    }
    if (closed) generation.finish(choice, 'stop');
    else if (choice.produced >= generation.maxTokens) generation.finish(choice, 'length');
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

/** Waits for the promise, for so long at most. */
async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
