/**
 * A service that is killed at random moments loses nothing that it acknowledged, and no engine outlives it.
 * `npm run test:crash` does the same two hundred times.
 */
import t from 'tap';
import { crashRun } from '../support/crash-run.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(600_000);

t.test('ten kills under load', async (t) => {
  const seed = Date.now() % 1_000_000;
  t.comment(`seed ${seed}`);
  const log = (line: string) => t.comment(line);
  const { acknowledged, doubts } = await crashRun({ kills: 10, seed, engine: 'echo', log });
  t.ok(acknowledged > 20, `${acknowledged} requests were acknowledged`);
  t.ok(Object.keys(doubts).length > 1, `kills came in ${JSON.stringify(doubts)}`);
});

t.test('two kills of a service with a real model', { skip: skipWithoutWeights }, async (t) => {
  const seed = Date.now() % 1_000_000;
  t.comment(`seed ${seed}`);
  const log = (line: string) => t.comment(line);
  const { acknowledged, doubts } = await crashRun({ kills: 2, seed, engine: 'llama', log });
  t.ok(acknowledged > 0, `${acknowledged} requests were acknowledged`);
  t.ok(doubts['snapshot write'], `kills came in ${JSON.stringify(doubts)}`);
});
