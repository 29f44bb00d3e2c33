/**
 * Owns the one suite that every store must pass.
 * It must never use more than the contract, so that all stores meet the same one.
 */
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { limits } from '../../src/limits/index.js';
import { testSeed } from '../../src/plugin/test/random-text.js';
import type { Store, StoreChange, StoreKey, StoreRange } from '../../src/store/store.js';

type OpenStore = (t: Test) => Promise<Store> | Store;

export function testStore(name: string, open: OpenStore): void {
  t.test(`${name} keeps the contract of a store`, async (t) => {
    const scenarios = { recordLife, keyOrder, anyKeyOrder, ranges, pages, commitAllOrNone };
    const more = { race, versionsGrow, copies, keyBounds, sizeBounds, closed };
    for (const [title, scenario] of Object.entries({ ...scenarios, ...more })) {
      t.test(title, async (t) => {
        const store = await open(t);
        await scenario(t, store);
        await store.close();
      });
    }
  });
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const put = (key: StoreKey, text = 'x', expected?: number | null): StoreChange => ({
  type: 'put',
  key,
  value: bytes(text),
  expected,
});

function textAt(store: Store, key: StoreKey): string | null {
  const record = store.get(key);
  return record ? new TextDecoder().decode(record.value) : null;
}

async function recordLife(t: Test, store: Store): Promise<void> {
  const key = ['cache', 'a'];
  t.equal(store.get(key), null, 'absent');
  t.equal(await store.commit([put(key, 'one')]), true);
  t.equal(textAt(store, key), 'one', 'visible when the commit resolves');
  await store.flushed();
  t.equal(await store.commit([{ type: 'remove', key }]), true);
  t.equal(store.get(key), null, 'gone');
  t.equal(await store.commit([{ type: 'remove', key }]), true, 'removing nothing is no error');
  t.equal(await store.commit([put(key, '')]), true);
  t.equal(textAt(store, key), '', 'an empty value is a value');
  t.equal(await store.commit([]), true, 'no change at all holds');
  const large = 'ä'.repeat(300_000);
  await store.commit([put(key, large)]);
  t.equal(textAt(store, key), large, 'a large value');
}

/** Keys in the order that the contract promises. */
const ORDERED: readonly StoreKey[] = [
  [-1e300],
  [-2.5],
  [-1],
  [0],
  [0, 0],
  [0, ''],
  [5e-324],
  [1],
  [1, 'a'],
  [1.5],
  [2],
  [10],
  [2 ** 53],
  [1e300],
  [''],
  ['', 1],
  ['\0'],
  ['\0', 1],
  ['\0\0'],
  ['\u0001'],
  ['\u0010'],
  ['10'],
  ['9'],
  ['A'],
  ['a'],
  ['a', -1],
  ['a', 1],
  ['a', 1, 'z'],
  ['a', 2],
  ['a', ''],
  ['a', 'b'],
  ['a\0'],
  ['a\0b'],
  ['a\u0001'],
  ['ab'],
  ['b'],
  ['é'],
  ['\uffff'],
  ['🦊'],
];

const WHOLE: StoreRange = { prefix: [], limit: limits.storePageMax };
const keysOf = (store: Store, range: Partial<StoreRange>): StoreKey[] =>
  store.page({ ...WHOLE, ...range }).map(({ key }) => key);

async function keyOrder(t: Test, store: Store): Promise<void> {
  const shuffled = ORDERED.map((key, i) => ({ key, rank: (i * 17) % ORDERED.length }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ key }) => key);
  for (const key of shuffled) await store.commit([put(key, JSON.stringify(key))]);
  t.strictSame(keysOf(store, {}), ORDERED);
  t.strictSame(keysOf(store, { reverse: true }), ORDERED.toReversed());
  for (const key of ORDERED) t.equal(textAt(store, key), JSON.stringify(key));
  await store.commit([put([-0], 'minus zero')]);
  t.equal(textAt(store, [0]), 'minus zero', 'minus zero is zero');
}

function compareKeys(a: StoreKey, b: StoreKey): number {
  for (const [i, left] of a.entries()) {
    const right = b[i];
    if (right === undefined) return 1;
    if (typeof left !== typeof right) return typeof left === 'number' ? -1 : 1;
    const order =
      typeof left === 'number' && typeof right === 'number'
        ? left - right
        : Buffer.compare(Buffer.from(String(left)), Buffer.from(String(right)));
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

async function anyKeyOrder(t: Test, store: Store): Promise<void> {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const double = fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (n === 0 ? 0 : n));
  const text = fc.string({ unit: 'binary', maxLength: 6 });
  const key = fc.array(fc.oneof(double, fc.integer(), text), { minLength: 1, maxLength: 4 });
  const keys = fc.sample(key, { numRuns: 400, seed });
  for (const one of keys) await store.commit([put(one, JSON.stringify(one))]);
  const expected = [...new Map(keys.map((one) => [JSON.stringify(one), one])).values()];
  t.strictSame(keysOf(store, {}), expected.sort(compareKeys));
  t.ok(keys.every((one) => textAt(store, one) === JSON.stringify(one)));
}

async function ranges(t: Test, store: Store): Promise<void> {
  const a = [1, 2, 3, 4, 5].map((i): StoreKey => ['a', i]);
  await store.commit([put(['a']), ...a.map((key) => put(key)), put(['aa', 1]), put(['b', 1])]);
  const cases: readonly [string, Partial<StoreRange>, StoreKey[]][] = [
    ['a prefix takes its own key and what extends it', { prefix: ['a'] }, [['a'], ...a]],
    ['after is excluded', { prefix: ['a'], after: ['a', 2] }, a.slice(2)],
    ['before is excluded', { prefix: ['a'], before: ['a', 2] }, [['a'], ['a', 1]]],
    ['both', { prefix: ['a'], after: ['a', 1], before: ['a', 4] }, a.slice(1, 3)],
    [
      'bounds need not exist',
      { prefix: ['a'], after: ['a', 1.5], before: ['a', 3.5] },
      a.slice(1, 3),
    ],
    ['an after before the prefix', { prefix: ['b'], after: ['a', 3] }, [['b', 1]]],
    [
      'a before behind the prefix',
      { prefix: ['a'], before: ['b', 1], after: ['a', 4] },
      a.slice(4),
    ],
    ['after the last', { prefix: ['a'], after: ['a', 5] }, []],
    ['an after behind the prefix', { prefix: ['a'], after: ['b'] }, []],
    ['a before before the prefix', { prefix: ['b'], before: ['a'] }, []],
    ['crossed bounds', { prefix: ['a'], after: ['a', 4], before: ['a', 2] }, []],
    ['no such prefix', { prefix: ['c'] }, []],
  ];
  for (const [title, range, expected] of cases) {
    t.strictSame(keysOf(store, range), expected, title);
    const reversed = keysOf(store, { ...range, reverse: true });
    t.strictSame(reversed, expected.toReversed(), `${title}, reversed`);
  }
}

async function pages(t: Test, store: Store): Promise<void> {
  const all = Array.from({ length: 25 }, (_, i): StoreKey => ['p', i]);
  await store.commit(all.map((key, i) => put(key, `${i}`)));
  t.strictSame(keysOf(store, { prefix: ['p'], limit: 0 }), []);
  const forth: StoreKey[] = [];
  const back: StoreKey[] = [];
  for (let page = 0; page < 3; page++) {
    const after = forth.at(-1);
    forth.push(...keysOf(store, { prefix: ['p'], limit: 10, ...(after ? { after } : {}) }));
    const before = back.at(-1);
    const range = { prefix: ['p'], limit: 10, reverse: true, ...(before ? { before } : {}) };
    back.push(...keysOf(store, range));
  }
  t.strictSame(forth, all, 'forth');
  t.strictSame(back, all.toReversed(), 'back');
  const [entry] = store.page({ prefix: ['p', 7], limit: 1 });
  t.strictSame(entry, { key: ['p', 7], record: store.get(['p', 7]) }, 'entries carry the record');
}

async function commitAllOrNone(t: Test, store: Store): Promise<void> {
  await store.commit([put(['a'], 'a1'), put(['b'], 'b1')]);
  const version = store.get(['a'])?.version ?? 0;
  const failing: readonly [string, StoreChange[]][] = [
    ['a wrong version', [put(['new'], 'x'), put(['a'], 'a2', version + 1)]],
    ['must not exist, but does', [put(['a'], 'a2', version), put(['b'], 'b2', null)]],
    ['must exist, but does not', [put(['a'], 'a2', version), put(['new'], 'x', 1)]],
    [
      'the first fails',
      [put(['b'], 'b2', null), put(['new'], 'x', null), put(['a'], 'a2', version)],
    ],
    ['the middle fails', [put(['new'], 'x', null), put(['none'], 'x', 7), put(['c'], 'x', null)]],
    [
      'a remove fails',
      [put(['new'], 'x', null), { type: 'remove', key: ['a'], expected: version + 1 }],
    ],
    ['a remove of what is absent', [put(['new']), { type: 'remove', key: ['none'], expected: 3 }]],
  ];
  for (const [title, changes] of failing) {
    t.equal(await store.commit(changes), false, title);
    const texts = ['a', 'b', 'c', 'new', 'none'].map((key) => textAt(store, [key]));
    t.strictSame(texts, ['a1', 'b1', null, null, null], `${title}: nothing written`);
  }
  const changes = [put(['a'], 'a2', version), put(['new'], 'n', null), put(['b'], 'b2')];
  t.equal(await store.commit([...changes, { type: 'remove', key: ['c'], expected: null }]), true);
  t.strictSame(
    [textAt(store, ['a']), textAt(store, ['new']), textAt(store, ['b'])],
    ['a2', 'n', 'b2'],
  );
  await t.rejects(store.commit([put(['good'], 'x'), put([])]), 'a bad key');
  t.equal(store.get(['good']), null, 'a bad key writes nothing before it');
}

async function race(t: Test, store: Store): Promise<void> {
  for (const key of ['fresh', 'existing', 'two keys']) {
    const others = key === 'two keys' ? [put([key, 'index'], 'i', null)] : [];
    if (key === 'existing') await store.commit([put([key], 'start')]);
    const expected = store.get([key])?.version ?? null;
    const racers = Array.from({ length: 20 }, (_, i) => put([key], `racer ${i}`, expected));
    const won = await Promise.all(racers.map((racer) => store.commit([racer, ...others])));
    t.equal(won.filter(Boolean).length, 1, `${key}: one of 20 wins`);
    t.equal(textAt(store, [key]), `racer ${won.indexOf(true)}`, `${key}: and it is what is there`);
  }
}

async function versionsGrow(t: Test, store: Store): Promise<void> {
  const key = ['v'];
  let last = 0;
  for (let i = 0; i < 20; i++) {
    await store.commit([i % 5 === 4 ? { type: 'remove', key } : put(key, `${i}`)]);
    const version = store.get(key)?.version;
    if (version === undefined) continue;
    t.ok(version > last, `${version} > ${last}, also after a removal`);
    last = version;
  }
  await Promise.all([1, 2, 3].map((i) => store.commit([put(key, `${i}`)])));
  t.ok((store.get(key)?.version ?? 0) > last, 'also side by side');
  t.equal(textAt(store, key), '3', 'commits happen in the order they were asked for');
}

async function copies(t: Test, store: Store): Promise<void> {
  for (const length of [10, 5_000, 200_000]) {
    const value = new Uint8Array(length).fill(1);
    const committed = store.commit([{ type: 'put', key: ['c'], value }]);
    value.fill(9);
    await committed;
    const first = store.get(['c'])?.value;
    t.ok(
      first?.every((byte) => byte === 1),
      `${length}: what was given may change`,
    );
    first?.fill(2);
    const [entry] = store.page({ prefix: ['c'], limit: 1 });
    t.ok(
      entry?.record.value.every((byte) => byte === 1),
      `${length}: what was got may change`,
    );
    entry?.record.value.fill(3);
    const kept = store.get(['c'])?.value;
    await store.commit([put(['c'], 'other'), put(['d'], 'y'.repeat(length))]);
    store.get(['d']);
    t.ok(
      kept?.every((byte) => byte === 1),
      `${length}: what was got stays`,
    );
  }
}

async function keyBounds(t: Test, store: Store): Promise<void> {
  const longest = 'k'.repeat(limits.storeKeyBytesMax - 2);
  t.equal(await store.commit([put([longest], 'long')]), true);
  t.equal(textAt(store, [longest]), 'long');
  t.strictSame(keysOf(store, { prefix: [longest] }), [[longest]]);
  const bad: readonly [StoreKey, RegExp][] = [
    [[`${longest}k`], /1978 bytes, at most 1977/],
    [['é'.repeat(1_000)], /2002 bytes, at most 1977/],
    [[], /must not be empty/],
    [['a\ud800'], /lone surrogate/],
    [[Number.NaN], /cannot carry NaN/],
    [[Number.POSITIVE_INFINITY], /cannot carry Infinity/],
  ];
  for (const [key, message] of bad) {
    t.throws(() => store.get(key), message);
    await t.rejects(store.commit([put(key)]), message);
    if (key.length > 0) t.throws(() => store.page({ prefix: key, limit: 1 }), message);
  }
}

async function sizeBounds(t: Test, store: Store): Promise<void> {
  const changes = Array.from({ length: limits.storeChangesMax }, (_, i) =>
    put(['m', i], 'x', null),
  );
  t.equal(await store.commit(changes), true, 'as many changes as allowed');
  await t.rejects(store.commit([...changes, put(['n'])]), /257 changes, at most 256/);
  for (const limit of [-1, 1.5, limits.storePageMax + 1, Number.NaN]) {
    t.throws(() => store.page({ prefix: [], limit }), /page limit/);
  }
}

async function closed(t: Test, store: Store): Promise<void> {
  await store.commit([put(['a'])]);
  await store.close();
  t.throws(() => store.get(['a']), /closed/);
  t.throws(() => store.page(WHOLE), /closed/);
  await t.rejects(store.commit([put(['a'])]), /closed/);
  await t.resolves(store.close(), 'closing twice is no error');
}
