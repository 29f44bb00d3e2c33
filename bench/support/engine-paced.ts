/**
 * Owns an engine that gives every open stream one token a step, all in the same turn, as a batch over sequences does.
 * It must never cost anything itself: what is measured is the way from an engine to the sockets.
 */
import type {
  Engine,
  EngineEvent,
  EnginePlugin,
  GenerateControl,
} from '../../src/plugin/contract.js';

/** 50 tokens a second a stream: faster than people read, slower than nothing is batched by accident. */
export const STEP_MS = 20;
/** What each step says: one token a byte, so a word is a piece of several. */
export const WORD = 'hello ';

/** All streams of a run. */
const SLOTS = 1_024;
const ids = [...Buffer.from(WORD)];
const waiting = new Set<() => void>();

const plugin: EnginePlugin = {
  kind: 'engine',
  name: 'paced',
  contract: 1,
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
