/**
 * Owns the sequences of one context: what each holds follows what is done to it here, and nowhere else.
 * It must never be called while the context evaluates.
 */
import { limits } from 'preface/plugin';
import type { Exactness } from './certificate.js';
import type { Context } from './context.js';
import { leastWorth, newSlots, reachableLength, type Slot } from './slots.js';
import type { IntactSnapshot } from './snapshots.js';

export class Sequences {
  readonly slots: readonly Slot[];
  #canCopy = true;
  #clock = 0;

  constructor(
    private readonly context: Context,
    count: number,
    private readonly window: number,
    private readonly exactness: Exactness | null,
  ) {
    this.slots = newSlots(count, context.cuttable);
  }

  get cuttable(): boolean {
    return this.context.cuttable;
  }

  get hasFree(): boolean {
    return this.slots.some((slot) => !slot.busy);
  }

  /** One that a copy could go to. */
  freeForCopy(): Slot | null {
    return this.#canCopy ? leastWorth(this.slots) : null;
  }

  /** Leaves the first `length` tokens in the sequence and nothing else, or fewer where it cannot be cut there. */
  keep(slot: Slot, owner: string | null, length: number): void {
    const kept = this.#cut(slot, Math.min(length, slot.tokens.length));
    slot.owner = owner;
    slot.tokens.length = kept;
    slot.exactLength = Math.min(slot.exactLength, kept);
    slot.checkpoints = slot.checkpoints.filter((checkpoint) => checkpoint.length <= kept);
    slot.again = [];
    if (kept === 0) slot.snapshots.clear();
  }

  #cut(slot: Slot, length: number): number {
    const { sequence } = slot;
    if (slot.cuttable) return this.context.truncate(sequence, length) ? length : 0;
    const reachable = reachableLength(slot, length);
    if (reachable === slot.tokens.length) return reachable;
    const checkpoint = slot.checkpoints.find((other) => other.length === reachable);
    if (checkpoint && this.context.restore(sequence, checkpoint)) return reachable;
    this.context.clear(sequence);
    return 0;
  }

  /** Remembers the state of a sequence that cannot be cut, to come back to it; the oldest makes room. */
  async checkpoint(slot: Slot): Promise<void> {
    const { length } = slot.tokens;
    if (slot.cuttable || length === 0) return;
    const others = slot.checkpoints.filter((checkpoint) => checkpoint.length !== length);
    const room = limits.checkpointsPerSequence - 1;
    const checkpoint = await this.context.checkpoint(slot.sequence, length);
    slot.checkpoints = [...others.slice(Math.max(0, others.length - room)), checkpoint];
  }

  /** Copies a prefix; 0 when it cannot be, and then choices run one after another and prompts cold. */
  async share(source: Slot, target: Slot, length: number): Promise<number> {
    if (!this.#canCopy) return 0;
    const copied = await this.context.copy(target.sequence, source.sequence, source.tokens.length);
    this.#canCopy = copied;
    target.owner = source.owner;
    target.tokens = copied ? source.tokens.slice() : [];
    target.exactLength = copied ? source.exactLength : 0;
    target.checkpoints = copied ? source.checkpoints : [];
    target.again = [];
    target.snapshots = new Set(copied ? source.snapshots : []);
    return copied ? length : 0;
  }

  /** False when the file's state did not become the sequence's, and the sequence is then empty. */
  async load(slot: Slot, owner: string, prefix: Uint32Array, file: IntactSnapshot) {
    this.keep(slot, null, 0);
    const ids = await this.context.load(slot.sequence, file.path, this.window);
    const same = ids?.length === prefix.length && ids.every((id, i) => id === prefix[i]);
    if (!same) {
      this.keep(slot, null, 0);
      return false;
    }
    slot.owner = owner;
    slot.tokens = [...prefix];
    slot.exactLength = prefix.length;
    slot.checkpoints = [];
    slot.again = [];
    await this.checkpoint(slot);
    return true;
  }

  async save(slot: Slot, path: string): Promise<void> {
    await this.context.save(slot.sequence, path, Uint32Array.from(slot.tokens));
  }

  release(slot: Slot): void {
    // What was generated one by one is worth nothing to exact reuse, and would only look like a loss.
    if (this.exactness) {
      const tokens = slot.tokens.slice();
      const { exactLength } = slot;
      this.keep(slot, slot.owner, exactLength - (exactLength % this.exactness.grain));
      slot.again = tokens.slice(slot.tokens.length);
    }
    slot.busy = false;
    slot.usedAt = ++this.#clock;
    if (slot.forgotten) this.keep(slot, null, 0);
    slot.forgotten = false;
    if (slot.again.length < limits.reevaluatedTokensMin) slot.again = [];
  }

  /** The free sequence that was used last, of those with generated tokens to evaluate again. */
  toReevaluate(): Slot | null {
    const slots = this.slots.filter((slot) => !slot.busy && slot.again.length > 0);
    return slots.sort((a, b) => b.usedAt - a.usedAt)[0] ?? null;
  }

  /** Empties what holds the snapshot; what is at work with it is emptied when it is done. */
  forget(name: string): void {
    for (const slot of this.slots) {
      if (!slot.snapshots.has(name)) continue;
      if (slot.busy) slot.forgotten = true;
      else this.keep(slot, null, 0);
    }
  }
}
