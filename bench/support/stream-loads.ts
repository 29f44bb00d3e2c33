/**
 * Owns questions about tokens a second beside llama-server, by how many streams there are and how long they are.
 * It must never let a prompt be reused: all sides evaluate every prompt in full.
 */
import { MODEL } from './chat.js';
import { CONTENDERS_NOTE, type Contender, Contenders } from './contenders.js';
import { defaultWeights } from './counting.js';
import { firstContent } from './first-content.js';
import { MISSING } from './llama-server.js';
import type { Question, Sample, Scale } from './question.js';
import { spreadOf } from './stats.js';

export interface Load {
  readonly label: string;
  readonly streams: number;
  readonly tokens: number;
  readonly goal: number;
}

const MUST = 0.95;
const REUSE_MAX = 16;

export function streamsQuestion(name: string, title: string, loads: readonly Load[]): Question {
  return { name, title, open: (scale) => open(loads, scale) };
}

async function open(loads: readonly Load[], scale: Scale): ReturnType<Question['open']> {
  const weights = defaultWeights();
  if (weights === null) {
    return { skipped: 'the default weights are not here; `preface models pull` gets them' };
  }
  const contenders = await Contenders.open(weights, scale);
  return {
    sides: loads.flatMap((load) => contenders.sides(load.label, (of) => measure(of, load, scale))),
    lines: loads.flatMap(({ label, goal }) =>
      contenders.lines(label, { unit: 'tokens/s', better: 'more', must: MUST, goal }),
    ),
    notes: [
      CONTENDERS_NOTE,
      'All streams begin at once, each with a prompt of its own; the time of the prompts counts, but that of the only stream.',
      ...(contenders.hasOther ? [] : [MISSING]),
    ],
    close: () => contenders.close(),
  };
}

let numbers = 100_000;

async function measure({ name, server }: Contender, load: Load, { tiny }: Scale): Promise<Sample> {
  const tokens = tiny ? 4 : load.tokens;
  const startedMs = performance.now();
  const told = await Promise.all(
    Array.from({ length: tiny ? Math.min(2, load.streams) : load.streams }, () =>
      firstContent({ port: server.port, body: chat(numbers++, tokens) }),
    ),
  );
  const ms = performance.now() - startedMs;
  const [first] = told;
  const all = told.reduce((sum, { answerTokens }) => sum + answerTokens, 0);
  const alone = load.streams === 1 && first !== undefined;
  return {
    value: alone
      ? ((first.answerTokens - 1) * 1_000) / (first.endMs - first.ms)
      : (all * 1_000) / ms,
    errors: told.filter(({ cachedTokens }) => cachedTokens > REUSE_MAX).length,
    check: `${name}: prompts of ${first?.promptTokens} tokens`,
    beside: {
      'tokens in all': all,
      'ms to the first text, median': spreadOf(told.map((each) => each.ms)).median,
      'ms to the first text, last': Math.max(...told.map((each) => each.ms)),
    },
  };
}

/** Prompts that differ from the first word on, with the same number of tokens each. */
function chat(number: number, maxTokens: number): object {
  return {
    model: MODEL,
    messages: [
      { role: 'system', content: `${number} is your number. You tell long stories.` },
      {
        role: 'user',
        content: 'Tell me the whole story of a town by the sea, from the first house to this day.',
      },
    ],
    temperature: 0,
    max_tokens: maxTokens,
  };
}
