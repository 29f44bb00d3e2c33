/**
 * Owns an engine that gives every open stream one token per step, all in the same turn, as a batch over sequences does.
 * It must never take noticeable time itself: the benches measure the way from an engine to the sockets.
 */
import type {
  Engine,
  EngineEvent,
  EnginePlugin,
  GenerateControl,
} from '../../src/plugin/contract.js';

/** 50 tokens per second and stream: faster than people read, and slow enough that tokens are not batched by accident. */
export const STEP_MS = 20;
/** The text of each step: with one token per byte, a word is a piece of several tokens. */
export const WORD = 'hello ';

/** The streams of a run. */
const SLOTS = 1_024;
const ids = [...Buffer.from(WORD)];
const waiting = new Set<() => void>();

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'paced',
  contract: 1,
  nativeFree: true,
  open: async ({ models }): Promise<Engine> => {
    const timer = setInterval(step, STEP_MS);
    return {
      models: () =>
        models.map(({ id, window }) => ({
          id,
          window,
          fingerprint: `paced-${window}`,
          slots: SLOTS,
          logprobs: false,
          vision: false,
        })),
      generate: (_task, control) => generate(control),
      prefill: () => Promise.reject(new Error('the paced engine keeps nothing')),
      forget: async () => {},
      close: async () => clearInterval(timer),
    };
  },
};

export default plugin;

function step(): void {
  const now = [...waiting];
  waiting.clear();
  for (const wake of now) wake();
}

async function* generate({ signal }: GenerateControl): AsyncGenerator<EngineEvent> {
  signal.addEventListener('abort', step);
  yield { type: 'started', reusedTokens: 0 };
  while (!signal.aborted) {
    await new Promise<void>((resolve) => waiting.add(resolve));
    yield { type: 'piece', choice: 0, ids, logprobs: null };
  }
}
