/** Owns what the tags of an owner promise of their bound when some are made and others deleted at the same time. */
import t from 'tap';
import { Tags } from '../../src/caches/tags.js';
import { systemClock } from '../../src/clock.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import type { StoreChange } from '../../src/store/store.js';

t.test('a tag that is deleted before it moves takes a place as a new one', async (t) => {
  const store = new MemoryStore();
  const writes: (() => void)[] = [];
  let isHeld = false;
  const commit = async (changes: readonly StoreChange[]): Promise<boolean> => {
    if (isHeld) await new Promise<void>((resolve) => writes.push(resolve));
    return await MemoryStore.prototype.commit.call(store, changes);
  };
  store.commit = commit;
  const tags = new Tags({
    store,
    clock: systemClock,
    report: (fault) => t.fail(String(fault)),
    max: () => 1,
  });
  t.teardown(() => tags.close());
  const turns = async () => {
    for (let i = 0; i < 100; i += 1) await null;
  };
  await tags.move('alice', ['a'], 'c1');

  isHeld = true;
  const removed = tags.remove('alice', 'a');
  await turns();
  t.equal(writes.length, 1);
  const moved = tags.move('alice', ['a'], 'c2');
  await turns();
  writes.shift()?.();
  await removed;
  await turns();
  t.equal(writes.length, 1, 'it is written again');
  const other = tags.move('alice', ['b'], 'c3');
  t.rejects(other, { message: /at most 1 tags/ });
  await turns();
  isHeld = false;
  for (const write of writes.splice(0)) write();
  t.match(await moved, [{ tag: 'a', cacheId: 'c2' }]);
  await other.catch(() => {});
  t.equal(await tags.held('alice'), 1);
  t.same(store.page({ prefix: ['tag', 'alice'], limit: 10 }).length, 1);
});
