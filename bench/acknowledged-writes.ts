/**
 * Owns the question whether acknowledged writes survive kill -9: how many there were, and that none was lost.
 * It must never decide itself what is lost: the crash run of the tests decides, and ends at the first loss.
 */
import { crashRun } from '../test/support/crash-run.js';
import type { OpenQuestion, Question, Sample } from './support/question.js';

/** About a second each; `npm run test:crash` is the long run. */
const KILLS = 20;

export const question: Question = {
  name: 'acknowledged-writes',
  title: 'Acknowledged writes that are found again after kill -9',
  open: async ({ tiny }) => {
    if (tiny) return { skipped: 'the tests have a short run of kills of their own' };
    return opened;
  },
};

const opened: OpenQuestion = {
  sides: [{ name: 'kills', roundsMax: 1, measure }],
  lines: [
    {
      label: 'nothing lost',
      subject: 'kills',
      unit: 'kills',
      floors: [],
      judged: 'value',
      better: 'more',
      must: KILLS,
      goal: null,
    },
  ],
  notes: [
    'Creations, updates, deletions and tags; the run ends at the first one that is lost.',
    `Here ${KILLS} kills at random moments of load; \`npm run test:crash\` does 200.`,
  ],
  close: () => Promise.resolve(),
};

async function measure(): Promise<Sample> {
  const seed = Date.now() % 1_000_000;
  const run = await crashRun({ kills: KILLS, seed, engine: 'echo', log: () => {} }).catch(
    (cause: unknown) => {
      throw new Error(`the run of kills failed, seed ${seed}`, { cause });
    },
  );
  return {
    value: KILLS,
    errors: 0,
    check: '0 writes lost',
    beside: {
      'acknowledged writes': run.acknowledged,
      'ms an engine outlived its service': run.orphanMsMax,
    },
  };
}
