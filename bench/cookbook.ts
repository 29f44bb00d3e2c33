/**
 * Owns the question what the recipes of the caching cookbook save: the same questions with the recipe, and with nothing reused.
 * It must never count a token as saved that the engine has not said it reused, nor leave the making of a cache out.
 */
import { defaultWeights } from './support/counting.js';
import type { Line, OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { cookbookKeys, Recipes } from './support/recipes.js';
import { startService } from './support/servers.js';

/** The names under which the guides refer to them. */
const CASES = ['document', 'few-shot', 'agent', 'handbook'] as const;

export const question: Question = {
  name: 'cookbook',
  title: 'What the recipes of the caching cookbook save',
  async open(scale) {
    if (defaultWeights() === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const threads = scale.tiny ? { PREFACE_THREADS: '1,1' } : {};
    const env = { PREFACE_ENGINE: 'llama', PREFACE_API_KEYS: cookbookKeys, ...threads };
    const service = await startService({ core: 'any', env });
    try {
      return { ...(await openQuestion(service.port, scale)), close: () => service.close() };
    } catch (cause) {
      await service.close();
      throw cause;
    }
  },
};

async function openQuestion(port: number, { tiny }: Scale): Promise<Omit<OpenQuestion, 'close'>> {
  const recipes = new Recipes(
    port,
    tiny ? { words: 20, tools: 2, questions: 2 } : { words: 300, tools: 8, questions: 4 },
  );
  await recipes.warm();
  const side = (name: string, run: () => Promise<Sample>): Side => ({
    name,
    roundsMax: 3,
    measure: run,
  });
  return {
    sides: CASES.flatMap((name) => [
      side(name, () => recipes.run(name, true)),
      side(nothingReused(name), () => recipes.run(name, false)),
    ]),
    lines: CASES.map(lineOf),
    notes: [
      'From the first request to the last answer of four tokens; where the recipe makes a cache, that is part of it.',
      'Nothing reused: each request has a `cache_salt` of its own.',
    ],
  };
}

function nothingReused(name: string): string {
  return `${name}, nothing reused`;
}

function lineOf(name: string): Line {
  return {
    label: name,
    subject: name,
    unit: 's',
    floors: [nothingReused(name)],
    judged: 'ratio',
    better: 'less',
    must: null,
    goal: null,
  };
}
