/**
 * Owns the floor of every cache hit: the library's own sequence with the prefix evaluated in it, or read from a file.
 * It must never keep tokens after the prefix: each measurement begins at the end of the prefix.
 */
import { join } from 'node:path';
import { getLlama, type LlamaContextSequence, LlamaLogLevel } from 'node-llama-cpp';
import type { RawContinued, RawPrefixTask } from './raw-prefixes.js';

const [, , weights = '', window = ''] = process.argv;

const llama = await getLlama({
  build: 'never',
  logLevel: LlamaLogLevel.error,
  progressLogs: false,
  maxThreads: 0,
});
const model = await llama.loadModel({ modelPath: weights });
const sequences = new Map<number, Promise<LlamaContextSequence>>();
const files = new Map<number, string>();

/** Without flash attention, as in the service by default. */
function sequenceOf(threads: number): Promise<LlamaContextSequence> {
  const opened =
    sequences.get(threads) ??
    model
      .createContext({ contextSize: Number(window), threads, flashAttention: false })
      .then((context) => context.getSequence());
  sequences.set(threads, opened);
  return opened;
}

process.on('message', (task: RawPrefixTask) => {
  const answer = task.type === 'prepare' ? prepare(task) : measure(task);
  void answer.then((continued) => process.send?.(continued));
});
process.send?.('ready');

async function prepare(task: RawPrefixTask & { type: 'prepare' }): Promise<RawContinued> {
  const { text, lengths, folder, threads } = task;
  const sequence = await sequenceOf(threads);
  const ids = model.tokenize(text);
  await sequence.clearHistory();
  for (const length of [...lengths].sort((a, b) => a - b)) {
    if (ids.length < length) throw new Error(`the text has ${ids.length} tokens, not ${length}`);
    await sequence.evaluateWithoutGeneratingNewTokens(ids.slice(sequence.nextTokenIndex, length));
    const file = join(folder, `${length}.state`);
    await sequence.saveStateToFile(file);
    files.set(length, file);
  }
  return { ms: [], prefixTokens: sequence.nextTokenIndex };
}

async function measure(task: RawPrefixTask & { type: 'continue' }): Promise<RawContinued> {
  const { length, newTokens, from, times, threads } = task;
  const sequence = await sequenceOf(threads);
  const ms: number[] = [];
  await load(sequence, length);
  // A warm-up: the first evaluation after a load also pays for initialisation.
  if (from === 'memory') await firstToken(sequence, length, newTokens);
  for (let time = 0; time < times; time++) {
    const startedMs = performance.now();
    if (from === 'file') await load(sequence, length);
    await firstToken(sequence, length, newTokens);
    ms.push(performance.now() - startedMs);
    await sequence.eraseContextTokenRanges([{ start: length, end: sequence.nextTokenIndex }]);
  }
  return { ms, prefixTokens: sequence.nextTokenIndex };
}

async function load(sequence: LlamaContextSequence, length: number): Promise<void> {
  await sequence.loadStateFromFile(files.get(length) ?? '', { acceptRisk: true });
}

async function firstToken(
  sequence: LlamaContextSequence,
  length: number,
  newTokens: number,
): Promise<void> {
  const end = sequence.nextTokenIndex;
  if (end > length) await sequence.eraseContextTokenRanges([{ start: length, end }]);
  const ids = model.tokenize(
    `Question ${Math.random()} ${'of what this text says '.repeat(newTokens)}`,
  );
  for await (const _ of sequence.evaluate(ids.slice(0, newTokens), { temperature: 0 })) return;
}
