/**
 * Owns the proof that accounts bound and count chats without a write for each.
 * It must see the counts where a restart would: in the store.
 */
import t from 'tap';
import { Accounts, type AccountsParts, type Admission } from '../../src/accounts/accounts.js';
import { decodeRecord } from '../../src/codec.js';
import { limits } from '../../src/limits/index.js';
import type { AccountRecord } from '../../src/rules/account.js';
import { defaultPolicy } from '../../src/rules/account-policy.js';
import { apiError } from '../support/api-error.js';
import { FaultyStore } from '../support/faulty-store.js';
import { SimulatedClock, settled } from '../support/simulated-clock.js';

const narrow = { ...defaultPolicy, concurrency: 1 };
const USAGE = { promptTokens: 10, cachedTokens: 4, completionTokens: 5 };

function world(): AccountsParts & { store: FaultyStore; clock: SimulatedClock; faults: unknown[] } {
  const faults: unknown[] = [];
  return {
    store: new FaultyStore(),
    clock: new SimulatedClock(),
    faults,
    report: (fault) => void faults.push(fault),
  };
}

function stored(store: FaultyStore, user: string): AccountRecord | null {
  const record = store.get(['account', user]);
  return record ? decodeRecord<AccountRecord>(record.value) : null;
}

t.test(
  'a chat costs no write; its usage is saved within a second and survives a restart',
  async (t) => {
    const parts = world();
    const accounts = new Accounts(parts);
    for (let i = 0; i < 100; i++) {
      const admission = accounts.admit('alice', 'ak-1', defaultPolicy);
      if (admission instanceof Promise) t.fail('not on the spot');
      (await admission).settle(USAGE);
    }
    t.equal(parts.store.commitCount, 0);
    await parts.clock.advance(limits.actorSaveMs);
    t.equal(parts.store.commitCount, 1);
    t.match(stored(parts.store, 'alice')?.today, { requests: 100, promptTokens: 1_000 });

    const restarted = new Accounts(parts);
    (await restarted.admit('alice', 'ak-1', defaultPolicy)).settle(USAGE);
    await restarted.close();
    t.match(stored(parts.store, 'alice')?.today, { requests: 101, completionTokens: 505 });
  },
);

t.test('the bound on concurrency is per user, and settling twice frees one place', async (t) => {
  const parts = world();
  const accounts = new Accounts(parts);
  const first = await accounts.admit('small', 'ak-1', narrow);
  t.throws(() => accounts.admit('small', 'ak-2', narrow), apiError('concurrencyLimit'));
  await accounts.admit('other', 'ak-3', defaultPolicy);
  first.settle(USAGE);
  first.settle(USAGE);
  await accounts.admit('small', 'ak-1', narrow);
  t.throws(() => accounts.admit('small', 'ak-1', narrow), apiError('concurrencyLimit'));
  await accounts.close();
  t.equal(stored(parts.store, 'small')?.today.requests, 1);
});

t.test('an account with a chat in flight is never let go, so its bound holds', async (t) => {
  const parts = world();
  const accounts = new Accounts(parts);
  const running = await accounts.admit('small', 'ak-1', narrow);
  await parts.clock.advance(limits.actorIdleMs * 5);
  t.throws(() => accounts.admit('small', 'ak-1', narrow), apiError('concurrencyLimit'));
  running.settle(USAGE);
  await parts.clock.advance(limits.actorIdleMs * 5);
  t.equal(parts.clock.timerCount, 0, 'and is let go once idle');
});

t.test('chats that come and go during a write wait for it', async (t) => {
  const parts = world();
  const accounts = new Accounts(parts);
  (await accounts.admit('small', 'ak-1', narrow)).settle(USAGE);
  const running = await accounts.admit('small', 'ak-1', narrow);
  let open = (): void => {};
  parts.store.gate = new Promise((resolve) => {
    open = resolve;
  });
  await parts.clock.advance(limits.actorSaveMs);
  running.settle(USAGE);
  const next: Promise<Admission> = Promise.resolve(accounts.admit('small', 'ak-1', narrow));
  open();
  (await next).settle(USAGE);
  await settled();
  await accounts.close();
  t.equal(stored(parts.store, 'small')?.today.requests, 3);
  t.strictSame(parts.faults, []);
});

t.test('a run that breaks off leaves its reservations as used', async (t) => {
  const parts = world();
  const limited = { ...defaultPolicy, tpm: 100 };
  const broken = new Accounts(parts);
  await (await broken.admit('alice', 'ak-1', limited)).reserve(60);
  await parts.clock.advance(limits.actorSaveMs);

  const restarted = new Accounts(parts);
  const admission = await restarted.admit('alice', 'ak-1', limited);
  await t.rejects(Promise.resolve(admission.reserve(41)), apiError('tokensPerMinute'));
  await admission.reserve(40);
  admission.settle(USAGE);
  await parts.clock.advance(limits.actorSaveMs);
  t.match(stored(parts.store, 'alice')?.rates, { reserved: 0, minute: { used: 75 } });
});

t.test('a wall clock that is set, on or back, lets nobody in and keeps nobody out', async (t) => {
  const parts = world();
  const accounts = new Accounts(parts);
  const once = { ...defaultPolicy, rpm: 1 };
  const enter = async () => (await accounts.admit('alice', 'ak-1', once)).settle(USAGE);
  await enter();
  for (const jumpMs of [3_600_000, -7_200_000, 86_400_000]) {
    parts.clock.jump(jumpMs);
    await t.rejects(enter(), apiError('requestLimit'), `${jumpMs}`);
    await parts.clock.advance(60_000);
    await enter();
  }
  await accounts.close();
  const day = Math.floor(parts.clock.nowMs() / 86_400_000);
  t.equal(stored(parts.store, 'alice')?.today.day, day, 'days are those of the wall');
});
