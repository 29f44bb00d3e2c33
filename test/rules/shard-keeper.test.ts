/** Which shards a node takes and gives up, alone and among others. */
import t from 'tap';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { givesShard, type ShardView, shardsToTake } from '../../src/rules/shard-keeper.js';

const free = (count: number): null[] => Array.from({ length: count }, () => null);

t.test('a node alone takes all', (t) => {
  const view: ShardView = { self: 'a', nodes: ['a'], holders: free(4) };
  t.same(shardsToTake(view), [0, 1, 2, 3]);
  t.notOk(givesShard({ ...view, holders: ['a', 'a', 'a', 'a'] }), 'and keeps them');
  t.end();
});

t.test('nodes that see the same share what is free', (t) => {
  const nodes = ['b', 'a', 'c'];
  const taken = nodes.map((self) => shardsToTake({ self, nodes, holders: free(8) }));
  t.same(taken.map(({ length }) => length).sort(), [2, 3, 3]);
  t.same(taken.flat().sort(), [0, 1, 2, 3, 4, 5, 6, 7], 'each shard one node');
  t.end();
});

t.test('a node that comes gets shards of the one that has the most', (t) => {
  const nodes = ['a', 'b', 'c'];
  const holders = ['a', 'a', 'a', 'b', 'b'];
  t.ok(givesShard({ self: 'a', nodes, holders }));
  t.notOk(givesShard({ self: 'b', nodes, holders }));
  const given = [null, 'a', 'a', 'b', 'b'];
  t.same(shardsToTake({ self: 'c', nodes, holders: given }), [0]);
  t.same(
    shardsToTake({ self: 'a', nodes, holders: given }),
    [],
    'who gave it does not take it back',
  );
  t.notOk(givesShard({ self: 'a', nodes, holders: given }), 'nor gives another one meanwhile');
  t.notOk(givesShard({ self: 'a', nodes, holders: ['c', 'a', 'a', 'b', 'b'] }));
  t.end();
});

t.test('what a node that is gone still holds is nobody else’s', (t) => {
  const view: ShardView = { self: 'a', nodes: ['a'], holders: ['gone', 'a', null] };
  t.same(shardsToTake(view), [2]);
  t.notOk(givesShard(view));
  t.end();
});

t.test('nodes come and go: each shard has a node, and shares become alike', (t) => {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  for (let run = 0; run < 300; run++) {
    const random = seededRandom(seed + run);
    const live = new Set(['n0']);
    const holders: (string | null)[] = free(1 + random(40));
    const views = () =>
      [...live].map((self) => ({ self, nodes: [...live], holders: [...holders] }));
    for (let step = 0; step < 200; step++) {
      const isQuiet = step > 100;
      if (!isQuiet && random(6) === 0) live.add(`n${random(8)}`);
      if (!isQuiet && random(8) === 0 && live.size > 1) {
        const gone = [...live][random(live.size)] ?? '';
        live.delete(gone);
        for (const [shard, holder] of holders.entries()) if (holder === gone) holders[shard] = null;
      }
      const seen = views();
      for (const view of seen) for (const shard of shardsToTake(view)) holders[shard] ??= view.self;
      const givers = seen.filter(givesShard);
      if (givers.length > 1) t.fail(`TEST_SEED=${seed + run}: ${givers.length} give at once`);
      for (const { self } of givers) holders[holders.indexOf(self)] = null;
    }
    const counts = [...live].map((node) => holders.filter((holder) => holder === node).length);
    if (holders.includes(null) && !views().some((view) => shardsToTake(view).length > 0))
      t.fail(`TEST_SEED=${seed + run}: a shard stays free`);
    if (Math.max(...counts) - Math.min(...counts) > 1)
      t.fail(`TEST_SEED=${seed + run}: shares of ${counts.join()}`);
    if (views().some(givesShard)) t.fail(`TEST_SEED=${seed + run}: shards never rest`);
  }
  t.end();
});
