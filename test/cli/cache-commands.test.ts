/**
 * Owns the proof that the cache commands see what a service with the same settings sees.
 * It must write records as a service would, and look at them through the commands alone.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { creationChanges } from '../../src/caches/records.js';
import { listedCaches, removeCache, shownCache } from '../../src/cli/cache-commands.js';
import { encodeBody } from '../../src/parsing/stored-body.js';
import type { CacheRecord } from '../../src/rules/cache-state.js';
import type { PrefixHash } from '../../src/rules/prefix.js';
import { type Config, loadConfig } from '../../src/settings/config.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';

const DAY_MS = 24 * 60 * 60_000;
const NOW_MS = 1_800_000_000_000;

const id = 'cache-00000000000000000001';

function recordOf(expiredMs: number): CacheRecord {
  return {
    id,
    owner: 'alice',
    family: 'svc-v1',
    hash: 'a'.repeat(64) as PrefixHash,
    name: '',
    description: '',
    metadata: [],
    tokens: 1,
    bytes: 2,
    status: 'inactive',
    generation: 1,
    error: null,
    contentFault: null,
    expiryFault: null,
    createdS: 1,
    expiredAtS: expiredMs / 1000,
    expirySetMs: expiredMs - DAY_MS,
    hits: 0,
    tokensSaved: 0,
    lastMissReason: null,
    remade: false,
  };
}

/** A data folder whose settings keep expired caches for a week, with one that expired so long before. */
async function configWith(t: Test, expiredForMs: number): Promise<Config> {
  const folder = t.testdir({});
  const file = join(folder, 'settings.json');
  writeFileSync(file, JSON.stringify({ limits: { cacheKeepMs: 7 * DAY_MS } }));
  const config = loadConfig({ flags: { config: file, dataDir: join(folder, 'data') }, env: {} });
  const store = LmdbStore.open({ folder: config.dataDir });
  const body = encodeBody({ messages: ['{"role":"user","content":"x"}'], tools: [] });
  const record = recordOf(NOW_MS - expiredForMs);
  await store.commit(creationChanges(record, body, config.limits.cacheKeepMs));
  await store.close();
  return config;
}

t.test('an expired cache is there as long as the settings keep it', async (t) => {
  const config = await configWith(t, 6 * DAY_MS);
  t.match(await listedCaches(config, NOW_MS, undefined), [{ id, status: 'inactive' }]);
  t.match(await shownCache(config, id, NOW_MS), { id });
  const later = NOW_MS + 2 * DAY_MS;
  t.strictSame(await listedCaches(config, later, undefined), []);
  await t.rejects(shownCache(config, id, later), /there is no cache/);
});

t.test('a removal leaves no record and no index entry of it', async (t) => {
  const config = await configWith(t, 6 * DAY_MS);
  await removeCache(config, id, { nowMs: NOW_MS, url: undefined, key: undefined });
  const store = LmdbStore.open({ folder: config.dataDir });
  t.strictSame(store.page({ prefix: [], limit: 10 }), []);
  await store.close();
});

t.test('who only looks changes nothing', async (t) => {
  const config = await configWith(t, 0);
  const bytes = () => readFileSync(join(config.dataDir, 'records.mdb'));
  const before = bytes();
  t.equal((await listedCaches(config, NOW_MS, undefined)).length, 1);
  t.ok(before.equals(bytes()));
  const unused = { ...config, dataDir: join(config.dataDir, 'unused') };
  t.same(await listedCaches(unused, NOW_MS, undefined), []);
  t.notOk(existsSync(unused.dataDir));
});
