/**
 * Owns the liveness check of pool threads: each has a counter in shared memory, which is odd while a step of a task runs.
 * It must never end a thread that makes progress, however slow the machine is.
 */
import { threadId, type Worker, workerData } from 'node:worker_threads';

/** Thread numbers only rise within a process; two living threads of a pool never share a slot. */
const SLOTS = 1024;
const LOOKS = 10;

export class ThreadWatch {
  readonly shared = new Int32Array(new SharedArrayBuffer(SLOTS * Int32Array.BYTES_PER_ELEMENT));
  readonly #stuckMsMax: number;
  #held = 0;
  #timer: NodeJS.Timeout | null = null;
  /** The counter of each thread, and for how many checks it has been the same. */
  #seen = new Map<Worker, { readonly count: number; readonly looks: number }>();

  constructor(stuckMsMax: number) {
    this.#stuckMsMax = stuckMsMax;
  }

  /** Checks the threads until it is released; there are no checks while no task runs. */
  hold(threads: () => readonly Worker[]): () => void {
    this.#held += 1;
    this.#timer ??= setInterval(() => this.#look(threads()), this.#stuckMsMax / LOOKS).unref();
    return () => {
      this.#held -= 1;
      if (this.#held === 0) this.close();
    };
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#seen.clear();
  }

  /** Counts checks, not time: a machine that was suspended is no fault of the thread. */
  #look(threads: readonly Worker[]): void {
    const seen = new Map<Worker, { readonly count: number; readonly looks: number }>();
    for (const thread of threads) {
      const count = Atomics.load(this.shared, slotOf(thread.threadId));
      const before = this.#seen.get(thread);
      const looks = before?.count === count && count % 2 !== 0 ? before.looks + 1 : 0;
      if (looks >= LOOKS) void thread.terminate();
      else seen.set(thread, { count, looks });
    }
    this.#seen = seen;
  }
}

/** In the thread: runs one synchronous step. */
export function step<Value>(work: () => Value): Value {
  if (!(workerData instanceof Int32Array)) return work();
  Atomics.add(workerData, slotOf(threadId), 1);
  try {
    return work();
  } finally {
    Atomics.add(workerData, slotOf(threadId), 1);
  }
}

function slotOf(id: number): number {
  return ((id % SLOTS) + SLOTS) % SLOTS;
}
