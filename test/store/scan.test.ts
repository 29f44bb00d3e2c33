/**
 * Owns the proof that a walk finds every record of its range once, in both stores and both directions.
 * It must count what the walk asks of the store.
 */
import t, { type Test } from 'tap';
import { LmdbStore } from '../../src/store/lmdb-store.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import { pages, scan, scanWithPauses } from '../../src/store/scan.js';
import type { Store, StoreEntry } from '../../src/store/store.js';

const COUNT = 25;

const stores: Readonly<Record<string, (t: Test) => Store>> = {
  memory: () => new MemoryStore(),
  lmdb: (t) => LmdbStore.open({ folder: t.testdir({}) }),
};

async function filled(t: Test, name: string): Promise<Store> {
  const store = stores[name]?.(t) ?? new MemoryStore();
  t.teardown(() => store.close());
  const numbers = Array.from({ length: COUNT }, (_, i) => i);
  const value = Buffer.from('x');
  await store.commit([
    ...numbers.map((i) => ({ type: 'put', key: ['a', i], value }) as const),
    { type: 'put', key: ['b', 0], value },
  ]);
  return store;
}

const numberOf = ({ key }: StoreEntry) => Number(key[1]);

for (const name of Object.keys(stores)) {
  t.test(`${name}: every entry of the range once, whatever the page`, async (t) => {
    const store = await filled(t, name);
    const all = Array.from({ length: COUNT }, (_, i) => i);
    for (const pageLength of [1, 7, COUNT, COUNT + 1]) {
      const range = { prefix: ['a'], pageLength };
      t.strictSame([...scan(store, range)].map(numberOf), all);
      t.strictSame([...scan(store, { ...range, reverse: true })].map(numberOf), all.toReversed());
      const inside = { ...range, after: ['a', 3], before: ['a', 9] };
      t.strictSame([...scan(store, inside)].map(numberOf), [4, 5, 6, 7, 8]);
      const back = [...scan(store, { ...inside, reverse: true })].map(numberOf);
      t.strictSame(back, [8, 7, 6, 5, 4]);
      const slowly: number[] = [];
      for await (const entry of scanWithPauses(store, range)) slowly.push(numberOf(entry));
      t.strictSame(slowly, all);
    }
    t.strictSame([...pages(store, { prefix: ['none'] })], [], 'no page is empty');
  });

  t.test(`${name}: a walk sees what is written ahead of it`, async (t) => {
    const store = await filled(t, name);
    const seen: number[] = [];
    for await (const entry of scanWithPauses(store, { prefix: ['a'], pageLength: 5 })) {
      seen.push(numberOf(entry));
      if (seen.length === 1) {
        await store.commit([
          { type: 'remove', key: ['a', 20] },
          { type: 'put', key: ['a', 99], value: Buffer.from('x') },
        ]);
      }
    }
    t.equal(seen.includes(20), false);
    t.equal(seen.at(-1), 99);
  });
}

t.test(
  'others get their turn between two pages, and a walk that is left reads no further',
  async (t) => {
    const store = await filled(t, 'memory');
    let pagesRead = 0;
    const counted = {
      page: (range: Parameters<Store['page']>[0]) => {
        pagesRead += 1;
        return store.page(range);
      },
    };
    let turns = 0;
    const tick = () => {
      turns += 1;
      if (turns < 100) setImmediate(tick);
    };
    setImmediate(tick);
    const walk = scanWithPauses(counted, { prefix: ['a'], pageLength: 5 });
    for await (const _entry of walk) if (turns >= 3) break;
    t.ok(turns >= 3 && turns < 100, `${turns} turns of others`);
    t.ok(pagesRead < COUNT / 5 + 1, `${pagesRead} pages`);
  },
);
