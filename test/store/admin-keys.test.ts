/** Owns the proof that admin keys open while they exist, and are nowhere to be read. */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/clock.js';
import { limits } from '../../src/limits/index.js';
import { AdminKeys } from '../../src/store/admin-keys.js';
import { ApiKeys } from '../../src/store/keys.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';
import { MemoryStore } from '../../src/store/memory-store.js';

const parts = { clock: systemClock, newBytes: randomBytes };

t.test('a key opens until it is revoked, and no user is behind it', async (t) => {
  const store = new MemoryStore();
  const admins = new AdminKeys({ ...parts, store });
  const users = new ApiKeys({ ...parts, store, settings: [] });
  t.notOk(admins.exist);
  const { key, keyId, shown } = await admins.create();
  const other = await admins.create();
  const alice = await users.create('alice');
  t.ok(admins.exist);
  t.ok(admins.opens(key));
  t.equal(users.lookup(key), null);
  t.notOk(admins.opens(alice.key));
  for (const wrong of [
    '',
    `${key}0`,
    key.slice(0, -1),
    shown,
    'x'.repeat(limits.keyBytesMax + 1),
  ]) {
    t.notOk(admins.opens(wrong), wrong.slice(0, 20));
  }
  t.same(
    admins
      .list()
      .map((info) => info.keyId)
      .sort(),
    [keyId, other.keyId].sort(),
  );
  t.equal(await admins.revoke(alice.keyId), false);
  t.equal(await users.revoke(keyId), false);
  t.equal(await admins.revoke(keyId), true);
  t.notOk(admins.opens(key));
  t.ok(admins.opens(other.key));
});

t.test('their number is bounded', async (t) => {
  const admins = new AdminKeys({ ...parts, store: new MemoryStore() });
  for (let made = 0; made < limits.adminKeysMax; made += 1) await admins.create();
  await t.rejects(admins.create(), /revoke some first/);
});

t.test('no file holds the key itself', async (t) => {
  const folder = t.testdir({});
  const store = LmdbStore.open({ folder, name: 'keys' });
  const { key } = await new AdminKeys({ ...parts, store }).create();
  await store.close();
  for (const file of readdirSync(folder)) {
    t.notOk(readFileSync(join(folder, file)).includes(key.slice(-20)), file);
  }
});
