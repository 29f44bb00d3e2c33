/**
 * Owns the question what guessed tokens gain: tokens a second of one stream that quotes its prompt, writes code, or tells a story.
 * It must never guess what a second side would: each has a service of its own.
 */
import { defaultWeights } from './support/counting.js';
import { ANSWER_TOKENS, stream, type Task, tasks } from './support/one-stream.js';
import type { Line, Question, Scale, Side } from './support/question.js';
import { type Server, startService } from './support/servers.js';

const WAYS = [
  { name: 'exact', exact: 'true', speculation: 'auto', beside: 'exact' },
  { name: 'exact, on', exact: 'true', speculation: 'on', beside: 'exact' },
  { name: 'not exact', exact: 'false', speculation: 'auto', beside: 'not exact' },
] as const;
const PLAIN = [
  { name: 'exact', exact: 'true' },
  { name: 'not exact', exact: 'false' },
] as const;

export const question: Question = {
  name: 'speculation',
  title: 'One stream with and without guessed tokens',
  async open(scale) {
    if (defaultWeights() === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const servers: Server[] = [];
    const sides: Side[] = [];
    const close = async (): Promise<void> => {
      await Promise.all(servers.map((server) => server.close()));
    };
    try {
      const plain = PLAIN.filter(({ name }) =>
        waysOf(scale).some(({ beside }) => beside === name),
      ).map((way) => ({ ...way, speculation: 'off', guesses: false }));
      for (const way of [...waysOf(scale).map((way) => ({ ...way, guesses: true })), ...plain]) {
        const server = await startService({ core: 'any', env: envOf(way, scale) });
        servers.push(server);
        for (const task of tasks) {
          const measure = () => stream(server, task, scale);
          sides.push({ name: sideName(task, way.name, way.guesses), measure });
        }
      }
    } catch (cause) {
      await close();
      throw cause;
    }
    return {
      sides,
      lines: waysOf(scale).flatMap((way) => tasks.map((task) => lineOf(task, way))),
      notes: [
        `Greedy answers of ${ANSWER_TOKENS} tokens each, from the first text to the end; the prompt is in memory.`,
        'The chances of a guess follow from the answer, so quoting gains most, and prose nothing.',
      ],
      close,
    };
  },
};

/** The look at whether all still runs asks one way: each start on the model takes its time. */
function waysOf({ tiny }: Scale): readonly (typeof WAYS)[number][] {
  return tiny ? WAYS.filter(({ exact }) => exact === 'false') : WAYS;
}

function envOf(
  { exact, speculation }: { readonly exact: string; readonly speculation: string },
  { tiny }: Scale,
): Record<string, string> {
  return {
    PREFACE_ENGINE: 'llama',
    PREFACE_EXACT: exact,
    PREFACE_SPECULATION: speculation,
    ...(tiny ? { PREFACE_THREADS: '1,1' } : {}),
  };
}

const sideName = (task: Task, way: string, guesses: boolean): string =>
  `${task}, ${way}${guesses ? '' : ', without guesses'}`;

function lineOf(task: Task, { name, beside }: (typeof WAYS)[number]): Line {
  return {
    label: `${task}, ${name}`,
    subject: sideName(task, name, true),
    unit: 'tokens/s',
    floors: [sideName(task, beside, false)],
    judged: 'ratio',
    better: 'more',
    // On most processors nothing is guessed by itself where answers are exact.
    must: task === 'quoting' && name !== 'exact' ? 1 : 0.95,
    goal: task === 'quoting' ? 1.3 : 1,
  };
}
