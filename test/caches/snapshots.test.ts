/**
 * Owns the proof that changes of caches cannot make more prefills wait than the bound on creations allows.
 * It must never depend on how long anything takes: the clock is simulated.
 */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { apiError } from '../support/api-error.js';
import { CacheWorld, creationOf } from '../support/cache-world.js';
import { settled } from '../support/simulated-clock.js';

const CHANGE = { metadata: null, expiry: null } as const;

/** A world whose prefills take a second, all of whose places for running ones are taken by another owner. */
async function busyWorld(): Promise<CacheWorld> {
  const world = new CacheWorld();
  world.life.prefiller.nextMs = () => 1_000;
  const owners = Array.from({ length: limits.prefillsRunningMax * 4 }, (_, at) => `owner ${at}`);
  for (const owner of owners) await world.caches.create(owner, creationOf('in the way'));
  await settled();
  return world;
}

t.test('one prefill waits for a prefix, however often its pin changes', async (t) => {
  const world = await busyWorld();
  const { caches, prefiller } = world.life;
  const { record } = await caches.create('alice', creationOf('text'));
  await settled();
  t.notOk(prefiller.begun.includes(record.hash), 'it waits');
  for (let i = 0; i < 20; i++) {
    await caches.update('alice', record.id, { ...CHANGE, pin: i % 2 === 0 });
    await settled();
  }
  await caches.update('alice', record.id, { ...CHANGE, pin: true });
  await world.clock.advance(60_000);
  t.equal(prefiller.begun.filter((hash) => hash === record.hash).length, 1);
  t.strictSame([...world.prefixes.pinned], [record.hash], 'the last change holds');
  t.match((await caches.get('alice', record.id)).record, { status: 'ready', pin: true });
});

t.test('the prefills of all shards have one bound, and take turns', async (t) => {
  const world = await busyWorld();
  const other = new CacheWorld(undefined, undefined, undefined, world);
  const { record } = await other.caches.create('alice', creationOf('text'));
  await settled();
  t.equal(world.life.prefiller.busy.size, limits.prefillsRunningMax);
  t.strictSame(other.life.prefiller.begun, [], 'it waits for those of the other shard');
  await world.clock.advance(60_000);
  t.match((await other.caches.get('alice', record.id)).record, { status: 'ready' });
  world.life.prefiller.nextMs = () => 60_000;
  for (let at = 0; at < limits.prefillsWaitingOwnerMax; at++)
    await world.caches.create('bob', creationOf(`text ${at}`));
  await settled();
  await t.rejects(other.caches.create('bob', creationOf('one more')), apiError('overloaded'));
});

t.test('one more waits behind the one that runs', async (t) => {
  const world = new CacheWorld();
  const { caches, prefiller } = world.life;
  prefiller.nextMs = () => 1_000;
  const { record } = await caches.create('alice', creationOf('text'));
  await settled();
  t.strictSame(prefiller.begun, [record.hash], 'it runs');
  for (let i = 0; i < 20; i++) {
    await caches.update('alice', record.id, { ...CHANGE, pin: i % 2 === 0 });
    await settled();
  }
  await caches.update('alice', record.id, { ...CHANGE, pin: true });
  await world.clock.advance(60_000);
  t.equal(prefiller.begun.length, 2);
  t.strictSame([...world.prefixes.pinned], [record.hash]);
  t.match((await caches.get('alice', record.id)).record, { status: 'ready', pin: true });
});

t.test('a change that asks for a prefill has the bound of a creation', async (t) => {
  const world = new CacheWorld(3_600_000);
  const { caches, prefiller } = world.life;
  const expired = await caches.create('alice', creationOf('expired', { ttl: 60 }));
  const idle = await caches.create('alice', creationOf('idle', { ttl: 3_600 }));
  await world.clock.advance(61_000);
  prefiller.nextMs = () => 1_000;
  const waiting = [];
  for (let i = 0; i < limits.prefillsWaitingOwnerMax; i++)
    waiting.push(await caches.create('alice', creationOf(`text ${i}`, { ttl: 3_600 })));
  await settled();
  const change = (id: string, more = {}) => caches.update('alice', id, { ...CHANGE, ...more });
  const again = { expiry: { type: 'ttl', ttlS: 3_600 } };
  await t.rejects(change(expired.record.id, again), apiError('overloaded'));
  await t.rejects(change(idle.record.id), apiError('overloaded'));
  for (const cache of [waiting[0], waiting.at(-1)])
    t.match(await change(cache?.record.id ?? ''), { record: { status: 'pending' } }, 'has its own');
  const now = { expiry: { type: 'ttl', ttlS: 0 } };
  t.match(await change(idle.record.id, now), { record: { status: 'inactive' } }, 'may always end');
  await world.clock.advance(600_000);
  await change(expired.record.id, again);
  await world.clock.advance(2_000);
  t.equal((await caches.get('alice', expired.record.id)).record.status, 'ready');
});
