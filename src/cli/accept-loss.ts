/**
 * Owns the operator's word that lost records are lost.
 * It must never touch records that are there.
 */
import type { Config } from '../settings/config.js';
import { LmdbStore } from '../store/lmdb-store.js';

/** Makes records that hold nothing where there are none: the start that follows removes what they do not explain. */
export async function acceptLoss({ dataDir: folder, store }: Config): Promise<void> {
  if (store !== null)
    throw new Error('--accept-data-loss is for records in the data folder, not in PostgreSQL');
  await LmdbStore.open({ folder, acceptLoss: true }).close();
}
