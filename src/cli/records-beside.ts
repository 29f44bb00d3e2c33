/**
 * Owns the look at the records while a service may have them open.
 * It must never claim them, nor write.
 */
import type { Config } from '../settings/config.js';
import { LmdbStore } from '../store/lmdb-store.js';
import type { Store } from '../store/store.js';

export async function readingRecords<Result>(
  config: Config,
  act: (store: Store) => Result,
): Promise<Result> {
  const store = LmdbStore.open({ folder: config.dataDir, name: 'records', exclusive: false });
  try {
    return act(store);
  } finally {
    await store.close();
  }
}
