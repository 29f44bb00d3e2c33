/** Owns the proof that a sum is right when an owner is first counted while one of its things is being removed. */
import t from 'tap';
import { type Held, Quota } from '../../src/actors/quota.js';
import { Tags } from '../../src/caches/tags.js';
import { systemClock } from '../../src/clock.js';
import { Conversations } from '../../src/responses/conversations.js';
import { MemoryStore } from '../../src/store/memory-store.js';
import type { StoreChange } from '../../src/store/store.js';

const MAX: Held = { count: 10, bytes: 1_000_000 };
const report = (fault: unknown) => {
  throw fault;
};

/** Readers see a removal a while before its commit resolves. */
class LateStore extends MemoryStore {
  /** Called while a removal is visible and not yet told. */
  removed: (() => Promise<void>) | null = null;

  override async commit(changes: readonly StoreChange[]): Promise<boolean> {
    const holds = await super.commit(changes);
    if (changes.some(({ type }) => type === 'remove')) await this.removed?.();
    return holds;
  }
}

interface Things {
  add(name: string): Promise<unknown>;
  remove(name: string): Promise<unknown>;
  count(): Promise<number>;
}

const kinds: Readonly<Record<string, (store: LateStore) => Things>> = {
  tags: (store) => {
    const tags = new Tags({ store, clock: systemClock, report, max: () => MAX.count });
    return {
      add: (name) => tags.move('alice', [name], 'cache-1'),
      remove: (name) => tags.remove('alice', name),
      count: () => tags.held('alice'),
    };
  },
  conversations: (store) => {
    const newBytes = (length: number) => Buffer.alloc(length, 1);
    const parts = { store, clock: systemClock, newBytes, report, max: () => MAX };
    const conversations = new Conversations(parts);
    const id = (name: string) => `conv_${name.repeat(32)}`;
    return {
      add: (name) => conversations.create('alice', id(name), {}, null),
      remove: (name) => conversations.delete('alice', id(name)),
      count: async () => (await conversations.held('alice')).count,
    };
  },
};

for (const [name, open] of Object.entries(kinds)) {
  t.test(`${name} that are first counted while one is removed`, async (t) => {
    const store = new LateStore();
    const before = open(store);
    for (const each of ['a', 'b', 'c']) await before.add(each);
    const after = open(store);
    let seen = -1;
    store.removed = async () => {
      store.removed = null;
      seen = await after.count();
    };
    await after.remove('a');
    t.not(seen, -1, 'it was counted in between');
    t.equal(await after.count(), 2);
    await after.add('d');
    t.equal(await after.count(), 3);
    t.equal(await open(store).count(), 3, 'as a new count says');
  });
}

t.test('an owner that cannot be counted can still give things back', async (t) => {
  const held = () => Promise.reject(new Error('a damaged record'));
  const quota = new Quota({ held, max: () => MAX, refusal: (over) => new Error(over) });
  await quota.counted('alice');
  quota.release('alice', 10);
  await t.rejects(quota.reserve('alice', 1), /a damaged record/);
  t.equal(quota.ownerCount, 0);
});
