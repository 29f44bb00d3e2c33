/**
 * Owns the floor of every engine figure: the library's own loop over its own scheduler, without the service.
 * It must never share anything with preface's engine but the weights and the settings that decide what is computed.
 */
import { getLlama, type LlamaContext, LlamaLogLevel } from 'node-llama-cpp';
import type { RawDecoded, RawDecodeTask } from './raw-engine.js';

const CONTEXT_TOKENS = 1_024;
const [, , weights = ''] = process.argv;

const llama = await getLlama({
  build: 'never',
  logLevel: LlamaLogLevel.error,
  progressLogs: false,
  maxThreads: 0,
});
const model = await llama.loadModel({ modelPath: weights });
const contexts = new Map<string, Promise<LlamaContext>>();

process.on('message', (task: RawDecodeTask) => {
  void decodeAll(task).then((decoded) => process.send?.(decoded));
});
process.send?.('ready');

/** Without flash attention, as in the service by default: with it the same prompt can have different answers. */
function contextOf(sequences: number, threads: number): Promise<LlamaContext> {
  const key = `${sequences} ${threads}`;
  const flashAttention = false;
  const opened =
    contexts.get(key) ??
    model.createContext({ contextSize: CONTEXT_TOKENS, sequences, threads, flashAttention });
  contexts.set(key, opened);
  return opened;
}

/** Prompts beyond the number of sequences wait, as they do in the service. */
async function decodeAll({
  prompts,
  sequences,
  threads,
  tokens,
}: RawDecodeTask): Promise<RawDecoded> {
  const context = await contextOf(sequences, threads);
  const waiting = [...prompts];
  const total = { type: 'decoded', ms: 0, promptTokens: 0, tokens: 0 } as const;
  const startedMs = performance.now();
  const runs = Array.from({ length: sequences }, async () => {
    const sequence = context.getSequence();
    let [promptTokens, answerTokens] = [0, 0];
    for (let prompt = waiting.shift(); prompt !== undefined; prompt = waiting.shift()) {
      await sequence.clearHistory();
      const ids = model.tokenize(prompt, true);
      promptTokens += ids.length;
      answerTokens += await decode(sequence.evaluate(ids, { temperature: 0 }), tokens);
    }
    sequence.dispose();
    return { promptTokens, answerTokens };
  });
  const all = await Promise.all(runs);
  return {
    ...total,
    ms: performance.now() - startedMs,
    promptTokens: all.reduce((sum, each) => sum + each.promptTokens, 0),
    tokens: all.reduce((sum, each) => sum + each.answerTokens, 0),
  };
}

async function decode(ids: ReturnType<Sequence['evaluate']>, tokensMax: number): Promise<number> {
  let tokens = 0;
  for await (const id of ids) {
    if (model.isEogToken(id)) break;
    tokens += 1;
    if (tokens === tokensMax) break;
  }
  return tokens;
}

type Sequence = ReturnType<LlamaContext['getSequence']>;
