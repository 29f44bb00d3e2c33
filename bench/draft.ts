/**
 * Owns the question what a draft model gains: tokens a second of one stream of a model that is several times as slow as its draft.
 * It must never be read as the gain of a real pair: how often guesses come depends on the two models.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import plugin from '../plugins/engines/llama/index.js';
import { defaultWeights } from './support/counting.js';
import { writeDeeperModel } from './support/deeper-model.js';
import { ANSWER_TOKENS, stream, type Task, tasks } from './support/one-stream.js';
import type { Line, Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startService } from './support/servers.js';

const TIMES_DEEPER = 5;
const TIMES_DEEPER_TINY = 2;
const WAYS = [
  { name: 'nothing guessed', speculation: 'off', drafts: false },
  { name: 'repetitions', speculation: 'auto', drafts: false },
  { name: 'a draft model too', speculation: 'auto', drafts: true },
] as const;
type Way = (typeof WAYS)[number];
const [PLAIN, REPETITIONS] = WAYS;

export const question: Question = {
  name: 'draft',
  title: 'One stream with and without a draft model',
  async open(scale) {
    const { tiny } = scale;
    // The look at whether all still runs leaves out a service: each start on the model takes its time.
    const ways = WAYS.filter((way) => !tiny || way !== REPETITIONS);
    const weights = defaultWeights();
    if (weights === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const folder = mkdtempSync(join(tmpdir(), 'preface-draft-'));
    const files = {
      model: join(folder, 'deeper.gguf'),
      draft: tiny ? weights : join(folder, 'draft.gguf'),
    };
    const servers: Server[] = [];
    const close = async (): Promise<void> => {
      await Promise.all(servers.map((server) => server.close()));
      rmSync(folder, { recursive: true, force: true });
    };
    try {
      await writeDeeperModel(weights, files.model, tiny ? TIMES_DEEPER_TINY : TIMES_DEEPER);
      if (!tiny) await plugin.convert?.(weights, files.draft, 'q4_0');
      const sides: Side[] = [];
      for (const way of ways) {
        const server = await startService({ core: 'any', env: envOf(way, files, scale) });
        servers.push(server);
        for (const task of tasks)
          sides.push({ name: sideName(task, way), measure: () => measured(server, task, scale) });
      }
      return {
        sides,
        lines: ways
          .filter((way) => way !== PLAIN)
          .flatMap((way) => tasks.map((task) => lineOf(task, way))),
        notes: [
          `Greedy answers of ${ANSWER_TOKENS} tokens each without exactness. The model is SmolLM2-135M with ${TIMES_DEEPER} times its layers, of which the added ones change nothing; its draft is SmolLM2-135M as Q4_0.`,
        ],
        close,
      };
    } catch (cause) {
      await close();
      throw cause;
    }
  },
};

/** Without exactness the last bits of a prompt depend on what of it was reused, and an answer may turn on them. */
async function measured(server: Server, task: Task, scale: Scale): Promise<Sample> {
  const sample = await stream(server, task, scale);
  return { ...sample, check: `${ANSWER_TOKENS} tokens` };
}

function envOf(
  { speculation, drafts }: Way,
  files: { readonly model: string; readonly draft: string },
  { tiny }: Scale,
) {
  return {
    PREFACE_ENGINE: 'llama',
    PREFACE_WEIGHTS: files.model,
    PREFACE_EXACT: 'false',
    PREFACE_SPECULATION: speculation,
    ...(tiny ? { PREFACE_THREADS: '1,1' } : {}),
    ...(drafts ? { PREFACE_DRAFT: files.draft } : {}),
  };
}

const sideName = (task: Task, { name }: Way): string => `${task}, ${name}`;

function lineOf(task: Task, way: Way): Line {
  return {
    label: sideName(task, way),
    subject: sideName(task, way),
    unit: 'tokens/s',
    floors: [sideName(task, PLAIN)],
    judged: 'ratio',
    better: 'more',
    must: 0.95,
    goal: way.drafts ? 1.3 : 1,
  };
}
