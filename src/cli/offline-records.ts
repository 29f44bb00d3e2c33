/**
 * Owns read access to the records for a process that is not the service, whether or not the service runs.
 * It must never claim the records, nor write.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { partingOf } from '../admin/open-shards.js';
import { withTemporaryFolder } from '../admin/temporary-folder.js';
import { systemClock } from '../clock.js';
import { allShards, nameOf } from '../rules/shards.js';
import type { Config } from '../settings/config.js';
import { assertNoLoss } from '../store/data-loss.js';
import { LmdbStore } from '../store/lmdb-store.js';
import { PostgresShared } from '../store/postgres-shared.js';
import type { Store } from '../store/store.js';
import { assertRecordsHere } from '../store/store-folder.js';
import { UnionStore } from '../store/union-store.js';

/** @param shards in how many the records lie. */
type Act<Result> = (store: Store, shards: number) => Promise<Result> | Result;

/** A data folder that no service has used yet has no records. @throws Error if its records are lost. */
export async function withOfflineRecords<Result>(
  { dataDir: folder, store: url }: Config,
  act: Act<Result>,
): Promise<Result> {
  if (url !== null) return await withPostgres(url, folder, act);
  assertRecordsHere(folder);
  assertNoLoss(folder, 'records.mdb');
  const bytes = statSync(join(folder, 'records.mdb'), { throwIfNoEntry: false })?.size ?? 0;
  if (bytes === 0) return await act(NOTHING, 1);
  const store = LmdbStore.openReadOnly(folder);
  try {
    return await act(store, 1);
  } finally {
    await store.close();
  }
}

/** All records come into the folder, and the system's own place may be small. */
async function withPostgres<Result>(
  url: string,
  dataDir: string,
  act: Act<Result>,
): Promise<Result> {
  return await withTemporaryFolder(dataDir, async (folder) => {
    const alone = { clock: systemClock, follows: false, readOnly: true } as const;
    const { shards } = await partingOf(url);
    const stores: Store[] = [];
    try {
      for (const shard of allShards(shards)) {
        const part = nameOf('records', shard);
        stores.push(await PostgresShared.open({ url, part, folder, ...alone }));
      }
      return await act(new UnionStore(stores), shards);
    } finally {
      for (const store of stores) await store.close();
    }
  });
}

const NOTHING: Store = {
  get: () => null,
  page: () => [],
  commit: () => Promise.reject(new Error('these records are only looked at')),
  flushed: () => Promise.resolve(),
  close: () => Promise.resolve(),
};
