/**
 * Owns the proof that the operator's list of all caches is whole, whatever became of some records.
 * It must never need the sweeper to have passed before.
 */
import t from 'tap';
import { cacheKeys } from '../../src/caches/records.js';
import { parseCacheQuery } from '../../src/protocol/caching.js';
import { CacheWorld, creationOf } from '../support/cache-world.js';

t.test('caches behind damaged ones are listed in their places', async (t) => {
  const world = new CacheWorld();
  const { caches, store } = world.life;
  const made: string[] = [];
  for (const [at, owner] of ['alice', 'bob', 'alice', 'bob', 'alice', 'bob', 'alice'].entries()) {
    made.push((await caches.create(owner, creationOf(`text ${at}`))).record.id);
    await world.clock.advance(1_000);
  }
  const damaged = [0, 1, 2, 4, 5].map((at) => made[at] ?? '');
  const value = new Uint8Array([1, 2, 3]);
  await store.commit(damaged.map((id) => ({ type: 'put', key: cacheKeys.record(id), value })));
  const [older, newer] = [made[3], made[6]];
  const listed = async (query: string) =>
    (await caches.recordsOfAll(parseCacheQuery(query))).map(({ id }) => id);
  t.same(await listed('limit=2&order=asc'), [older, newer]);
  t.same(await listed('limit=2'), [newer, older]);
  t.same(await listed('limit=1'), [newer]);
  t.same(await listed(`limit=1&after=${newer}`), [older]);
  t.same(await listed('limit=3'), [newer, older], 'and the end ends it');
});
