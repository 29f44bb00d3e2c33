/**
 * A service that is killed at random moments loses nothing that it acknowledged, and no engine outlives it.
 * `npm run test:crash` does the same two hundred times.
 */
import t from 'tap';
import { testSeed } from '../../src/plugin/test/random-text.js';
import { crashRun } from '../support/crash-run.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(600_000);

t.test('ten kills under load', async (t) => {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const log = (line: string) => t.comment(line);
  const { acknowledged, doubts } = await crashRun({ kills: 10, seed, engine: 'echo', log });
  t.ok(acknowledged > 20, `${acknowledged} requests were acknowledged`);
  t.ok(Object.keys(doubts).length > 1, `kills came in ${JSON.stringify(doubts)}`);
});

/** A write may be over before the kill that it set off comes: then the service is killed again. */
const WRITE_TRIES = 4;

t.test('two kills of a service with a real model', { skip: skipWithoutWeights }, async (t) => {
  const log = (line: string) => t.comment(line);
  const hits: (number | undefined)[] = [];
  while (hits.length < WRITE_TRIES && !hits.at(-1)) {
    const seed = testSeed() + hits.length;
    t.comment(`TEST_SEED=${seed}`);
    const { acknowledged, doubts } = await crashRun({ kills: 2, seed, engine: 'llama', log });
    t.ok(acknowledged > 0, `${acknowledged} requests were acknowledged`);
    t.comment(`kills came in ${JSON.stringify(doubts)}`);
    hits.push(doubts['snapshot write']);
  }
  t.ok(hits.at(-1), `a snapshot was half written in one of ${hits.length} runs`);
});
