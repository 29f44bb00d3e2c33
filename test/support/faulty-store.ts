/**
 * Owns a store that fails as a test tells it, in the ways a disk can fail.
 * It must never fail in a way that the contract of stores does not allow.
 */
import { ApiError } from '../../src/errors.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import type {
  Store,
  StoreChange,
  StoredRecord,
  StoreEntry,
  StoreKey,
  StoreRange,
} from '../../src/store/store.js';

/** `lost`: an error, and nothing written. `unsure`: an error, but written. `refused`: a version did not hold. */
export type Fault = 'none' | 'lost' | 'unsure' | 'refused';

export class FaultyStore implements Store {
  readonly #store = new MemoryStore();
  /** Called at each commit. */
  nextFault: () => Fault = () => 'none';
  /** Awaited before each commit. */
  gate: Promise<void> = Promise.resolve();
  /** Awaited by each flush. */
  flushGate: Promise<void> = Promise.resolve();
  commitCount = 0;

  get(key: StoreKey): StoredRecord | null {
    return this.#store.get(key);
  }

  page(range: StoreRange): StoreEntry[] {
    return this.#store.page(range);
  }

  async commit(changes: readonly StoreChange[]): Promise<boolean> {
    this.commitCount += 1;
    const fault = this.nextFault();
    await this.gate;
    if (fault === 'refused') return false;
    const error = new ApiError('unavailable', { error: `the write was ${fault}` });
    if (fault === 'lost') throw error;
    const holds = await this.#store.commit(changes);
    if (fault === 'unsure') throw error;
    return holds;
  }

  async flushed(): Promise<void> {
    await this.flushGate;
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
