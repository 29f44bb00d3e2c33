/**
 * Owns the question how much time a cache hit saves: time to the first text, over the length of the prefix.
 * It must never call a chat a hit whose prefix was evaluated, nor a chat cold that reused anything.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { HitSides } from './support/cache-hit-sides.js';
import { defaultWeights } from './support/counting.js';
import { llamaServerPath, MISSING, startLlamaServer } from './support/llama-server.js';
import type { Curves, Line, OpenQuestion, Question, Scale } from './support/question.js';
import { RawPrefixes } from './support/raw-prefixes.js';
import { RestartedService } from './support/restarted-service.js';

const WINDOW = 8_192;

/** The bounds of a row: the share of the cold time that a hit may take, and the number of rounds with a cold chat. */
interface Length {
  readonly tokens: number;
  readonly must: number;
  readonly goal: number;
  readonly coldRounds: number;
}

const LENGTHS: readonly Length[] = [
  { tokens: 1_024, must: 0.05, goal: 0.035, coldRounds: 5 },
  { tokens: 2_048, must: 0.03, goal: 0.02, coldRounds: 3 },
  { tokens: 4_096, must: 0.02, goal: 0.01, coldRounds: 2 },
  { tokens: 7_500, must: 0.015, goal: 0.007, coldRounds: 1 },
];
const TINY: readonly Length[] = [{ tokens: 64, must: 1, goal: 1, coldRounds: 1 }];

export const question: Question = {
  name: 'cache-hit',
  title: 'Time to the first text, over the length of the cached prefix',
  async open(scale) {
    const weights = defaultWeights();
    if (weights === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const folder = mkdtempSync(join(tmpdir(), 'preface-bench-'));
    const closers: (() => Promise<void> | void)[] = [
      () => rmSync(folder, { recursive: true, force: true }),
    ];
    const close = async (): Promise<void> => {
      for (const each of closers.splice(0).reverse()) await each();
    };
    try {
      return { ...(await openQuestion(scale, weights, folder, closers)), close };
    } catch (cause) {
      await close();
      throw cause;
    }
  },
};

async function openQuestion(
  scale: Scale,
  weights: string,
  folder: string,
  closers: (() => Promise<void> | void)[],
): Promise<Omit<OpenQuestion, 'close'>> {
  const lengths = scale.tiny ? TINY : LENGTHS;
  // A tiny run judges no figure, so it need not find the best number of threads.
  const env = { PREFACE_ENGINE: 'llama', ...(scale.tiny ? { PREFACE_THREADS: '1,1' } : {}) };
  const service = await RestartedService.open(join(folder, 'data'), env);
  closers.push(() => service.close());
  const raw = await RawPrefixes.open(weights, WINDOW);
  closers.push(() => raw.close());
  const path = llamaServerPath();
  const slots = lengths.length;
  const other =
    path === null ? null : await startLlamaServer({ path, weights, window: WINDOW, slots });
  if (other !== null) closers.push(() => other.close());
  const tokens = lengths.map((each) => each.tokens);
  const times = scale.tiny ? 1 : 5;
  const cores = availableParallelism();
  const threads = scale.tiny ? [1] : [...new Set([Math.max(1, cores >> 1), cores])];
  const hits = await HitSides.open({
    service,
    raw,
    other,
    folder,
    lengths: tokens,
    times,
    threads,
  });
  return {
    sides: lengths.flatMap((length) => hits.of(length.tokens, length.coldRounds)),
    lines: linesOf(lengths, other !== null),
    curves: curvesOf(tokens, other !== null),
    notes: [
      'A hit comes after chats with other prefixes; a warm one right after another with the same prefix.',
      'The engine alone is the library’s own loop over one sequence, without HTTP, with the better of half and all cores.',
      'After a restart is the first chat of all: it also pays for what is opened when it is first needed.',
      ...(other === null ? [MISSING] : []),
    ],
  };
}

function linesOf(lengths: readonly Length[], hasOther: boolean): Line[] {
  const of =
    (kind: string, floor: string, line: Pick<Line, 'must' | 'goal' | 'plus'>) =>
    ({ tokens }: Length): Line => ({
      label: `${kind}, ${tokens}`,
      subject: `${kind}, ${tokens}`,
      unit: 'ms',
      floors: [`${floor}, ${tokens}`],
      judged: 'ratio',
      better: 'less',
      ...line,
    });
  const plus = { must: 3, goal: 1 };
  return [
    ...lengths.map((length) => of('hit', 'cold', length)(length)),
    ...lengths.map(of('warm hit', 'engine alone', { must: 1.15, goal: 1.05, plus })),
    ...lengths.map(of('after restart', 'engine alone, from file', { must: 1.5, goal: 1.2 })),
    ...(hasOther ? lengths.map(of('warm hit', 'llama-server', { must: null, goal: null })) : []),
  ];
}

function curvesOf(lengths: readonly number[], hasOther: boolean): Curves {
  const names = [
    'cold',
    'after restart',
    'hit',
    'engine alone',
    ...(hasOther ? ['llama-server'] : []),
  ];
  return {
    across: 'tokens of the prefix; 32 new ones come after it',
    unit: 'ms to the first text',
    series: names.map((name) => ({
      name,
      points: lengths.map((x) => ({ x, side: `${name}, ${x}` })),
    })),
  };
}
