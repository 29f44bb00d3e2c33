/**
 * Owns read access to the records for a process that is not the service, whether or not the service runs.
 * It must never claim the records, nor write.
 */
import type { Config } from '../settings/config.js';
import { LmdbStore } from '../store/lmdb-store.js';
import type { Store } from '../store/store.js';

export async function withOfflineRecords<Result>(
  config: Config,
  act: (store: Store) => Promise<Result> | Result,
): Promise<Result> {
  const store = LmdbStore.open({ folder: config.dataDir, name: 'records', exclusive: false });
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}
