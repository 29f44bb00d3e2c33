/**
 * Owns the proof that the operator's look at one user costs no look at the others.
 * It must count what is read, never measure time.
 */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { UserBook } from '../../src/admin/user-book.js';
import { systemClock } from '../../src/clock.js';
import { AccountGrants } from '../../src/store/account-grants.js';
import { ApiKeys } from '../../src/store/keys.js';
import { apiError } from '../support/api-error.js';
import { CountingStore } from '../support/counting-store.js';

const USERS = 1_000;

t.test(`one user among ${USERS}`, async (t) => {
  const store = new CountingStore();
  const keys = new ApiKeys({ store, clock: systemClock, newBytes: randomBytes, settings: [] });
  const grants = new AccountGrants({ store, base: {}, users: new Map([['dora', {}]]) });
  const recorded = { has: (user: string) => user === 'carol', all: () => ['carol'] };
  const apiKeys = [{ user: 'bob', key: 'open sesame' }];
  const book = new UserBook({ file: { keys, grants }, apiKeys, clock: systemClock, recorded });
  for (let i = 0; i < USERS; i++) await keys.create(`user-${i}`);
  await keys.create('user-7');
  await keys.create('bob');
  await book.keysOf('bob');

  const cost = async (act: () => Promise<unknown>) => {
    store.reads = 0;
    await act();
    return store.reads;
  };
  t.ok((await cost(() => book.countKeys('user-7'))) <= 12, 'its count');
  t.equal(await book.countKeys('user-7'), 2);
  t.ok((await cost(() => book.keysOf('user-7'))) <= 12, 'its keys');
  t.ok((await cost(() => book.assertKnown('user-9'))) <= 6, 'that it is there');
  t.equal(await book.countKeys('bob'), 2, 'those of the settings count too');
  t.equal(await book.countKeys('carol'), 0, 'known by the records alone');
  t.equal(await book.countKeys('dora'), 0, 'known by a grant of the settings alone');
  const nobody = () => t.rejects(book.countKeys('nobody'), apiError('userNotFound'));
  t.ok((await cost(nobody)) <= 6, 'that it is not there');
});
