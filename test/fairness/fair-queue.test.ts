/**
 * Owns the proof that the one fair queue serves owners in turns, and that the one counter counts right.
 * It must compare both with a plain model over random histories, and print the seed.
 */
import t from 'tap';
import { FairQueue } from '../../src/fairness/fair-queue.js';
import { OwnerLoad } from '../../src/fairness/owner-load.js';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';

const OWNERS = ['alice', 'bob', 'carol'];

t.test('owners take turns, and each owner’s items keep their order', async (t) => {
  const queue = new FairQueue<string>();
  for (const item of ['a1', 'a2', 'a3']) queue.push('alice', item);
  for (const item of ['b1', 'b2']) queue.push('bob', item);
  queue.push('carol', 'c1');
  t.ok(queue.remove('alice', 'a2'));
  t.notOk(queue.remove('alice', 'a2'));
  t.notOk(queue.remove('dave', 'a1'));
  const taken = Array.from({ length: 6 }, () => queue.shift());
  t.strictSame(taken, ['a1', 'b1', 'c1', 'a3', 'b2', undefined]);
});

t.test('an owner who is skipped keeps the turn', async (t) => {
  const queue = new FairQueue<string>();
  queue.push('alice', 'a1');
  queue.push('bob', 'b1');
  queue.push('bob', 'b2');
  t.equal(
    queue.shift(() => false),
    undefined,
  );
  t.equal(
    queue.shift((owner) => owner !== 'alice'),
    'b1',
  );
  t.equal(queue.shift(), 'a1', 'alice was before bob');
  t.ok(queue.hasAny((owner) => owner === 'bob'));
  t.notOk(queue.hasAny((owner) => owner !== 'bob'));
  t.strictSame(queue.drain(), ['b2']);
  t.equal(queue.shift(), undefined);
});

t.test('while owners wait, nobody is served twice before each was served once', async (t) => {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  for (let round = 0; round < 300; round++) {
    const queue = new FairQueue<string>();
    const waiting = new Map(OWNERS.map((owner) => [owner, 0]));
    const passedOver = new Map(OWNERS.map((owner) => [owner, 0]));
    for (let step = 0; step < 60; step++) {
      const owner = OWNERS[random(OWNERS.length)] ?? '';
      if (random(2) === 0) {
        queue.push(owner, owner);
        waiting.set(owner, (waiting.get(owner) ?? 0) + 1);
        continue;
      }
      const served = queue.shift();
      if (served === undefined) continue;
      waiting.set(served, (waiting.get(served) ?? 0) - 1);
      passedOver.set(served, 0);
      for (const other of OWNERS) {
        if (other === served || waiting.get(other) === 0) passedOver.set(other, 0);
        else passedOver.set(other, (passedOver.get(other) ?? 0) + 1);
      }
      const most = Math.max(...passedOver.values());
      if (most >= OWNERS.length) t.fail(`seed ${seed}, round ${round}: passed over ${most} times`);
    }
    const left = queue.drain().length;
    const expected = [...waiting.values()].reduce((sum, count) => sum + count, 0);
    if (left !== expected) t.fail(`seed ${seed}, round ${round}: ${left} left for ${expected}`);
  }
  t.pass('300 histories');
});

t.test('the load of an owner and of all', async (t) => {
  const load = new OwnerLoad();
  load.add('alice', 5);
  load.add('alice', 7);
  load.add('bob');
  t.strictSame(load.of('alice'), { count: 2, work: 12 });
  t.strictSame(load.of('bob'), { count: 1, work: 0 });
  t.strictSame(load.of('carol'), { count: 0, work: 0 });
  t.strictSame(load.total, { count: 3, work: 12 });
  t.equal(load.ownerCount, 2);
  load.remove('alice', 5);
  load.remove('bob');
  t.strictSame(load.total, { count: 1, work: 7 });
  t.equal(load.ownerCount, 1, 'an owner without anything is not kept');
});
