/**
 * Owns the proof that every bench still runs: each question once, tiny, with all its sides and lines.
 * It must never look at a figure: a test that is timed fails when a neighbour is busy.
 */
import t from 'tap';
import { questions } from '../bench/questions.js';
import { ask, tiny } from '../bench/support/ask.js';
import { useWeights } from '../bench/support/counting.js';
import type { Sample, Scale, Side } from '../bench/support/question.js';
import { picture } from '../bench/support/report.js';
import { measure } from '../bench/support/rounds.js';
import { shareServices } from '../bench/support/servers.js';
import { spreadOf, verdictOf } from '../bench/support/stats.js';
import { compareWords } from '../bench/support/words.js';
import { shallowWeights } from './support/shallow-weights.js';
import { skipWithoutWeights } from './support/weights.js';

/** All of them, on a machine that others keep busy. */
t.setTimeout(900_000);

// No figure is looked at, and no answer for its sense.
if (skipWithoutWeights === false) useWeights(shallowWeights());
t.teardown(shareServices());

/** Where the floor answers the very bytes of the service. */
const twins = new Set(['chat-echo', 'get-model', 'stream-chunks']);

/** Where nothing at all is a figure, and the best one. */
const shares = new Set(['cache-exact']);

/** Where a figure is a difference of times, which a busy machine may turn round. */
const differences = new Set(['proxy-overhead']);

for (const question of questions) {
  t.test(question.name, async (t) => {
    const result = await ask(question, tiny);
    if ('skipped' in result) {
      t.pass(question.name, { skip: result.skipped });
      return;
    }
    for (const { name, errors, values, check } of result.sides) {
      t.equal(errors, 0, `${name}: no errors`);
      const isFigure = (value: number) =>
        value > 0 ||
        (value === 0 && shares.has(question.name)) ||
        (value < 0 && differences.has(question.name));
      t.ok(values.length === 1 && values.every(isFigure), `${name}: a figure`);
      t.not(check, '', `${name}: it says what it answered`);
      t.comment(`${name}: check ${check}`);
    }
    if (twins.has(question.name)) {
      const checks = new Set(result.sides.map(({ check }) => check));
      t.equal(checks.size, 1, 'all sides answer the same');
    }
    t.ok(result.lines.length > 0, 'lines');
    t.match(picture(result), /^<svg[\s\S]*<\/svg>\n$/, 'a picture');
  });
}

t.test('words that are missing and words that are too many are told apart', async (t) => {
  const compared = compareWords('one two two four', 'one two three four five');
  t.same(compared, { found: 3 / 5, precise: 3 / 4, ordered: 1 });
  t.match(compareWords('', 'one'), { found: 0, precise: 0 });
});

const bounds = { better: 'more', must: 1, goal: 2 } as const;

t.test('quartiles far apart decide nothing', async (t) => {
  t.same(spreadOf([4, 1, 3, 2, 5]), { low: 2, median: 3, high: 4 });
  t.equal(verdictOf(spreadOf([1.5, 1.5, 1.6]), bounds), 'must');
  t.equal(verdictOf(spreadOf([2.1, 2.1, 2.2]), bounds), 'goal');
  t.equal(verdictOf(spreadOf([0.9, 0.9, 0.9]), bounds), 'short');
  t.equal(verdictOf(spreadOf([1, 2, 3]), bounds), 'undecided');
  t.equal(verdictOf(spreadOf([3, 3, 3]), { better: 'less', must: 4, goal: 2 }), 'must');
  t.equal(verdictOf(spreadOf([3]), { better: 'less', must: null, goal: null }), 'report');
});

const side = (name: string, samples: readonly Partial<Sample>[], log: string[]) => ({
  name,
  measure: async (round: number): Promise<Sample> => {
    log.push(`${round}${name}`);
    return { value: 1, errors: 0, check: 'same', ...samples[Math.max(0, round)] };
  },
});

t.test('sides take turns, and the best floor is the one that counts', async (t) => {
  const log: string[] = [];
  const measured = await measure(
    {
      sides: [
        side('a', [{ value: 8 }, { value: 6 }], log),
        side('b', [{ value: 2 }, { value: 3 }], log),
        side('c', [{ value: 4 }, { value: 3.5 }], log),
      ],
      lines: [
        { ...bounds, label: 'a', subject: 'a', unit: '', floors: ['b', 'c'], judged: 'ratio' },
      ],
      notes: [],
      close: async () => {},
    },
    { tiny: false, rounds: 2, ms: 1 },
  );
  t.equal(log.join(' '), '-1a -1b -1c 0b 0c 0a 1c 1a 1b');
  t.equal(measured.lines[0]?.floor?.side, 'c');
  t.equal(measured.lines[0]?.ratio?.low, 6 / 3.5 + (2 - 6 / 3.5) / 4);
});

t.test('a costly side is measured in a few rounds, and never to warm up', async (t) => {
  const log: string[] = [];
  const cheap = side(
    'a',
    [1, 2, 3, 4].map((value) => ({ value })),
    log,
  );
  const costly: Side = {
    ...side(
      'b',
      [2, 2, 4].map((value) => ({ value })),
      log,
    ),
    roundsMax: 2,
  };
  const line = { ...bounds, label: 'a', subject: 'a', unit: '', floors: ['b'] };
  const question = {
    sides: [cheap, costly],
    lines: [{ ...line, judged: 'ratio' as const, plus: { must: 3, goal: 6 } }],
    notes: [],
    close: async () => {},
  };
  const measured = await measure(question, { tiny: false, rounds: 4, ms: 1 } satisfies Scale);
  t.equal(log.filter((each) => each.endsWith('b')).join(' '), '0b 2b');
  t.same(measured.sides[1]?.values, [2, 4]);
  t.same(measured.lines[0]?.ratio, spreadOf([1 / 2, 2 / 2, 3 / 4, 4 / 4]), 'beside the last one');
  t.match(measured.lines[0], { must: 1 + 3 / 3, goal: 2 + 6 / 3 }, 'a bound with something on top');
});

t.test('an answer that changes from round to round is no figure', async (t) => {
  const sides = [side('a', [{ check: 'one' }, { check: 'two' }], [])];
  const question = { sides, lines: [], notes: [], close: async () => {} };
  await t.rejects(measure(question, { tiny: false, rounds: 2, ms: 1 }), /a changes its answer/);
});
