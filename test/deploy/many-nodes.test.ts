/**
 * The arithmetic of many nodes: the documents tell what the model says, and the model is a ring.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { manyNodesMarkdown, plan } from '../../bench/many-nodes.js';
import { movedShare, ringLoads } from '../../bench/support/node-ring.js';

t.test('the page on deployment holds the table', async (t) => {
  const readme = readFileSync(new URL('../../../bench/deploy/README.md', import.meta.url), 'utf8');
  t.ok(readme.includes(manyNodesMarkdown()));
});

t.test(
  'a node that is added takes its share of the owners, and no other owner moves',
  async (t) => {
    const small = { ...plan, nodes: 100, points: 256, owners: 20_000, caches: 20_000 };
    const share = movedShare(small);
    t.ok(share > 0.5 / 101 && share < 2 / 101, `${(100 * share).toFixed(2)} % of the owners`);
  },
);

t.test('all owners are somewhere, and the same seed is the same model', async (t) => {
  const small = { ...plan, nodes: 10, points: 64, owners: 500, caches: 5_000 };
  const loads = ringLoads(small);
  t.equal(
    loads.reduce((sum, { owners }) => sum + owners, 0),
    500,
  );
  t.same(ringLoads(small), loads);
  t.notSame(ringLoads({ ...small, seed: 21 }), loads);
});
