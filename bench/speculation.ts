/**
 * Owns the question what guessed tokens gain: tokens a second of one stream that quotes its prompt, writes code, or tells a story.
 * It must never count the evaluation of a prompt, nor compare answers of two lengths.
 */
import { MODEL } from './support/chat.js';
import { checkOf } from './support/check.js';
import { defaultWeights } from './support/counting.js';
import { firstContent } from './support/first-content.js';
import { atRest } from './support/processes.js';
import type { Line, Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startService } from './support/servers.js';

const ANSWER_TOKENS = 160;
/** Characters of a task. */
const TINY_LENGTH = 80;
const WAYS = [
  { name: 'exact', exact: 'true', speculation: 'auto', beside: 'exact' },
  { name: 'exact, on', exact: 'true', speculation: 'on', beside: 'exact' },
  { name: 'not exact', exact: 'false', speculation: 'auto', beside: 'not exact' },
] as const;
const PLAIN = [
  { name: 'exact', exact: 'true' },
  { name: 'not exact', exact: 'false' },
] as const;

const PASSAGE =
  'The ferry leaves the old harbour at seven, crosses the sound in forty minutes, and waits for the bus from the north. ' +
  'Those who miss it take the small boat of the fishermen, which carries nine people and no bicycles. The ticket is sold on ' +
  'board, and children below the age of six travel free. In winter the last ferry leaves at four, since the sound is dark by five.';
const CODE = `function totalOf(orders) {
  let total = 0;
  for (const order of orders) {
    if (order.cancelled) continue;
    total += order.price * order.count;
  }
  return total;
}`;

const TASKS = {
  quoting: `Repeat the following text word for word, three times.\n\n${PASSAGE}`,
  code: `Write this function again with comments, and then a function countOf that counts the orders:\n\n${CODE}`,
  prose: 'Tell me the whole story of a town by the sea, from the first house to this day.',
} as const;

type Task = keyof typeof TASKS;
const tasks = Object.keys(TASKS) as Task[];

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
      const plain = PLAIN.map((way) => ({ ...way, speculation: 'off', guesses: false }));
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

/** The look at whether all still runs leaves out a service: each start on the model takes its time. */
function waysOf({ tiny }: Scale): readonly (typeof WAYS)[number][] {
  return tiny ? WAYS.filter(({ speculation }) => speculation === 'auto') : WAYS;
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

async function stream({ port, tree }: Server, task: Task, { tiny }: Scale): Promise<Sample> {
  const content = tiny ? TASKS[task].slice(0, TINY_LENGTH) : TASKS[task];
  const messages = [{ role: 'user', content }];
  const length = { max_tokens: tiny ? 6 : ANSWER_TOKENS, ignore_eos: true };
  const body = { model: MODEL, messages, temperature: 0, ...length };
  const { ms, endMs, text, answerTokens, promptTokens } = await firstContent({ port, body });
  // What a service does with an answer once it has ended, such as keeping its tokens, must not be the next one's to bear.
  if (!tiny) await atRest(tree);
  return {
    value: (answerTokens - 1) / ((endMs - ms) / 1_000),
    errors: 0,
    check: `${promptTokens} tokens, answer ${checkOf(text)}`,
    beside: { 'tokens of the answer': answerTokens },
  };
}
