/**
 * Owns the prompts that are evaluated in a context, chunk by chunk in turn: where each begins, and what is saved of it.
 * It must never evaluate a token alone where exactness counts, nor load what was not just checked.
 */
import type { BatchItem } from './context.js';
import { type Job, Prefill, type Prompt } from './prompt.js';
import type { Sequences } from './sequences.js';
import { chunkLength, holdsPrefix, leastWorth, placePrompt, type Slot } from './slots.js';
import type { IntactSnapshot } from './snapshots.js';

export type Evaluate = (items: readonly BatchItem[], tokens: number) => Promise<number[]>;

/** A step of one prompt; `logit` once the last of its tokens is evaluated. */
export interface PromptStep {
  readonly job: Job;
  readonly logit: number | null;
}

/** Before anything was measured. */
const EVALUATE_MS_PER_TOKEN = 2;
const LOAD_BYTES_PER_MS = 500_000;
/** Every so many steps a prompt that nobody waits for goes first. */
const BACKGROUND_TURN = 4;

export class Prompts {
  readonly #jobs: Job[] = [];
  #steps = 0;
  #evaluateMsPerToken = EVALUATE_MS_PER_TOKEN;
  #loadBytesPerMs = LOAD_BYTES_PER_MS;

  constructor(
    private readonly sequences: Sequences,
    private readonly exact: boolean,
    private readonly evaluate: Evaluate,
  ) {}

  get length(): number {
    return this.#jobs.length;
  }

  /** Whether a sequence holds all of the prompt's snapshot, so that the disk need not be asked. */
  holds({ owner, prefix }: Prompt): boolean {
    return holdsPrefix(this.sequences.slots, owner, prefix, this.exact);
  }

  /** Settles what is reused, from a sequence or a file. */
  async start(job: Job): Promise<Slot> {
    const { prompt } = job;
    const slot = (await this.#startFromFile(prompt)) ?? (await this.#startFromSequence(prompt));
    slot.busy = true;
    prompt.slot = slot;
    prompt.evaluated = slot.tokens.length;
    prompt.reused = prompt.evaluated;
    const { snapshot } = prompt.parts;
    if (snapshot && prompt.reused >= prompt.usable(snapshot.tokens))
      slot.snapshots.add(snapshot.name);
    this.#jobs.push(job);
    return slot;
  }

  async #startFromSequence(prompt: Prompt): Promise<Slot> {
    const place = placePrompt(this.sequences.slots, prompt, this.exact);
    if (!place) throw new Error('a prompt was admitted without a free sequence');
    const { source, target, reused } = place;
    const length = source ? await this.sequences.share(source, target, reused) : reused;
    this.sequences.keep(target, prompt.owner, length);
    return target;
  }

  async #startFromFile(prompt: Prompt): Promise<Slot | null> {
    const { file, prefix, owner } = prompt;
    prompt.file = null;
    const slot = leastWorth(this.sequences.slots);
    if (!file || !slot || !this.#loadPays(prompt, file)) return null;
    const startedAt = performance.now();
    if (!(await this.sequences.load(slot, owner, prefix, file))) {
      file.distrust();
      return null;
    }
    const rate = file.bytes / Math.max(0.1, performance.now() - startedAt);
    this.#loadBytesPerMs = 0.75 * this.#loadBytesPerMs + 0.25 * rate;
    this.sequences.keep(slot, owner, prompt.usable(prefix.length));
    return slot;
  }

  /** A sequence that holds as much always wins; else loading must be quicker than evaluating the difference. */
  #loadPays(prompt: Prompt, { bytes, tokens }: IntactSnapshot): boolean {
    const resident = placePrompt(this.sequences.slots, prompt, this.exact)?.reused ?? 0;
    const usable = prompt.usable(tokens);
    if (usable < tokens && !this.sequences.cuttable) return false;
    const gained = usable - resident;
    return gained > 0 && bytes / this.#loadBytesPerMs < gained * this.#evaluateMsPerToken;
  }

  /** One chunk or one save of one prompt; prompts take turns, so that a short one is not behind a long one. */
  async step(rowsMax: number): Promise<PromptStep | null> {
    const job = this.#next();
    const slot = job?.prompt.slot;
    if (!job || !slot) return null;
    const { prompt } = job;
    if (prompt.atSnapshot) {
      await this.#save(job, slot);
      if (job instanceof Prefill) return { job, logit: null };
    }
    const logit = await this.#chunk(prompt, slot, rowsMax);
    if (logit === null) this.#jobs.push(job);
    return { job, logit };
  }

  #next(): Job | undefined {
    const background = ++this.#steps % BACKGROUND_TURN === 0;
    const index = this.#jobs.findIndex((job) => job instanceof Prefill === background);
    return this.#jobs.splice(Math.max(0, index), 1)[0];
  }

  async #chunk(prompt: Prompt, slot: Slot, rowsMax: number): Promise<number | null> {
    const { ids, evaluated: position } = prompt;
    const stop = prompt.stop(!this.sequences.cuttable);
    const length = chunkLength(stop - position, rowsMax, prompt.parts.exactness?.grain);
    const chunk = ids.subarray(position, position + length);
    // A snapshot that ends where the prompt ends is saved first.
    const last = prompt.write === null && position + length === ids.length;
    const logits = prompt.parts.answered && last;
    const item = { sequence: slot.sequence, position, ids: chunk, logits };
    const startedAt = performance.now();
    const [logit] = await this.evaluate([item], length);
    const each = (performance.now() - startedAt) / length;
    this.#evaluateMsPerToken = 0.75 * this.#evaluateMsPerToken + 0.25 * each;
    prompt.evaluated += length;
    for (const id of chunk) slot.tokens.push(id);
    if (length > 1) slot.exactLength = slot.tokens.length;
    if (!slot.cuttable && prompt.checkpoints.includes(prompt.evaluated))
      await this.sequences.checkpoint(slot);
    return logits && logit !== undefined ? logit : null;
  }

  async #save(job: Job, slot: Slot): Promise<void> {
    const { prompt } = job;
    const { write, parts } = prompt;
    prompt.write = null;
    try {
      if (!write || write.cancelled) throw new Error('the snapshot was forgotten');
      await write.create();
      await this.sequences.save(slot, write.path);
      slot.snapshots.add(parts.snapshot?.name ?? '');
      if (job instanceof Prefill) job.finish();
      // An answer does not wait for the disk, nor fail with it.
      else write.commit().catch(() => {});
    } catch (cause) {
      job instanceof Prefill && job.fail((await write?.failure(cause)) ?? cause);
      write?.abandon();
    }
    if (prompt.evaluated > prompt.most) {
      this.sequences.keep(slot, prompt.owner, prompt.most);
      prompt.evaluated = slot.tokens.length;
    }
  }

  drop(job: Job): void {
    const index = this.#jobs.indexOf(job);
    if (index >= 0) this.#jobs.splice(index, 1);
  }
}
