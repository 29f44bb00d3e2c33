/**
 * Owns the pools of threads that evaluate, as the library makes and frees them.
 * It must never make one by a structure that reads otherwise than expected; the library then makes threads for each batch.
 */
import type koffi from 'koffi';
import type { Pointer } from './libllama-functions.js';

export interface ThreadPools {
  /** Null where the library does not have pools as its release does. */
  open(threads: number): Pointer | null;
  close(pool: Pointer): void;
}

type Koffi = typeof koffi;
type Loaded = ReturnType<Koffi['load']>;

const PARAMS = {
  n_threads: 'int32_t',
  prio: 'int32_t',
  poll: 'uint32_t',
  strict_cpu: 'bool',
  paused: 'bool',
} as const;

interface Params {
  readonly cpumask: readonly boolean[];
  readonly n_threads: number;
  readonly prio: number;
  readonly poll: number;
  readonly strict_cpu: boolean;
  readonly paused: boolean;
}

/** Places in the library's mask of processors. */
const PROCESSORS = 512;
/** What the library polls by default before a thread sleeps. */
const POLL_DEFAULT = 50;
/** Some ten milliseconds: longer than the time between two batches, and soon over when nobody asks. */
const POLL = 5;
const CPU_DEVICE = 0;

export function declareThreadPools(door: Koffi, base: Loaded, backends: Loaded): ThreadPools {
  const none: ThreadPools = { open: () => null, close: () => {} };
  const device = backends.func('void *ggml_backend_dev_by_type(int)')(CPU_DEVICE);
  if (device === null) return none;
  const registry = base.func('void *ggml_backend_dev_backend_reg(void *)')(device);
  const addressOf = base.func('void *ggml_backend_reg_get_proc_address(void *, str)');
  const make = addressOf(registry, 'ggml_threadpool_new');
  const free = addressOf(registry, 'ggml_threadpool_free');
  if (make === null || free === null) return none;
  const makeCall = door.proto('void *(void *)');
  const freeCall = door.proto('void (void *)');
  const type = door.struct({ cpumask: door.array('bool', PROCESSORS), ...PARAMS });
  const fill = base.func('void ggml_threadpool_params_init(void *, int)');
  return {
    open(threads) {
      const memory = door.alloc(type, 1);
      try {
        fill(memory, threads);
        const params = door.decode(memory, type) as Params;
        const { n_threads, poll, paused } = params;
        if (n_threads !== threads || poll !== POLL_DEFAULT || paused) return null;
        door.encode(memory, type, { ...params, poll: POLL });
        return door.call(make, makeCall, memory) as Pointer | null;
      } finally {
        door.free(memory);
      }
    },
    close: (pool) => door.call(free, freeCall, pool),
  };
}
