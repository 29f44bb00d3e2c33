/**
 * Owns a store whose process can die at any commit and whose disk can fail; written records remain for the next process.
 * It must never write for a dead process, nor answer it.
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

/** `die before` and `die after` the write; `lost`: an error, nothing written; `unsure`: an error, but written. */
export type Fate = 'good' | 'die before' | 'die after' | 'lost' | 'unsure';

const NEVER = new Promise<never>(() => {});

export class MortalStore implements Store {
  readonly disk: MemoryStore;
  /** Called at each commit. */
  nextFate: () => Fate = () => 'good';
  dead = false;
  reads = 0;
  commits = 0;

  constructor(disk = new MemoryStore()) {
    this.disk = disk;
  }

  get(key: StoreKey): StoredRecord | null {
    this.reads += 1;
    return this.disk.get(key);
  }

  page(range: StoreRange): StoreEntry[] {
    const entries = this.disk.page(range);
    this.reads += 1 + entries.length;
    return entries;
  }

  async commit(changes: readonly StoreChange[]): Promise<boolean> {
    if (this.dead) return NEVER;
    this.commits += 1;
    const fate = this.nextFate();
    if (fate === 'lost') throw failed(fate);
    if (fate === 'die before') this.dead = true;
    if (this.dead) return NEVER;
    const holds = await this.disk.commit(changes);
    if (fate === 'die after') this.dead = true;
    if (fate === 'unsure') throw failed(fate);
    return this.dead ? NEVER : holds;
  }

  async flushed(): Promise<void> {
    if (this.dead) await NEVER;
  }

  async close(): Promise<void> {}
}

function failed(fate: Fate): ApiError {
  return new ApiError('unavailable', { error: `the write was ${fate}` });
}
