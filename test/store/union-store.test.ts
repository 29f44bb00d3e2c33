/**
 * Owns the proof that several stores are read as one store that has everything.
 * It must compare whole answers with such a store, never look into the merged one.
 */
import t from 'tap';
import { seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { scan } from '../../src/store/scan.js';
import type { Store, StoreChange, StoreKey, StoreRange } from '../../src/store/store.js';
import { UnionStore } from '../../src/store/union-store.js';

const seed = testSeed();
const below = seededRandom(seed);
const element = (): string | number => (below(2) === 0 ? below(3) - 1 : 'ab\0~'.slice(below(5)));
const key = (): StoreKey => Array.from({ length: 1 + below(3) }, element);

const put = (at: StoreKey, text: string): StoreChange => ({
  type: 'put',
  key: at,
  value: Buffer.from(text),
});

function shown(store: Store, range: StoreRange) {
  return store
    .page(range)
    .map(({ key: at, record: { value } }) => [at, Buffer.from(value).toString()]);
}

t.test(`many stores answer as one (TEST_SEED=${seed})`, async (t) => {
  for (let round = 0; round < 60; round += 1) {
    const all = new MemoryStore();
    const parts = Array.from({ length: 1 + below(4) }, () => new MemoryStore());
    const union = new UnionStore(parts);
    const keys = Array.from({ length: below(40) }, key);
    for (const [at, each] of keys.entries()) {
      if (all.get(each) !== null) continue;
      await all.commit([put(each, `value ${at}`)]);
      await parts[below(parts.length)]?.commit([put(each, `value ${at}`)]);
    }
    // What every shard has.
    await all.commit([put(['mark'], 'same')]);
    for (const part of parts) await part.commit([put(['mark'], 'same')]);
    for (let at = 0; at < 20; at += 1) {
      const prefix = below(2) === 0 ? [] : key();
      const after = below(2) === 0 ? {} : { after: key() };
      const before = below(2) === 0 ? {} : { before: key() };
      const range = { prefix, reverse: below(2) === 0, limit: below(12), ...after, ...before };
      t.same(shown(union, range), shown(all, range), JSON.stringify(range));
      const one = key();
      t.same(union.get(one)?.value, all.get(one)?.value, JSON.stringify(one));
    }
    const walked = [...scan(union, { prefix: [], pageLength: 3 })].map((entry) => entry.key);
    t.same(
      walked,
      [...scan(all, { prefix: [] })].map((entry) => entry.key),
    );
  }
});

t.test('it takes no commit and no page without a bound, and closes all', async (t) => {
  const parts = [new MemoryStore(), new MemoryStore()];
  const union = new UnionStore(parts);
  await t.rejects(union.commit(), /only looked at/);
  await union.flushed();
  t.throws(() => union.page({ prefix: [], limit: -1 }), /limit/);
  await union.close();
  for (const part of parts) t.throws(() => part.get(['a']), /closed/);
});
