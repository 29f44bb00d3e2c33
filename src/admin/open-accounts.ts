/**
 * Owns the opening of what the command line and every server share: keys and grants.
 * It must never open the records, which only one process may have.
 */
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemRandom } from '../clock.js';
import type { Config } from '../settings/config.js';
import { AccountGrants } from '../store/account-grants.js';
import { AdminKeys } from '../store/admin-keys.js';
import { ApiKeys } from '../store/keys.js';
import { isFull, LmdbStore } from '../store/lmdb-store.js';
import { MemoryStore } from '../store/memory-store.js';
import { PostgresShared } from '../store/postgres-shared.js';
import { Reserve } from '../store/reserve.js';
import type { Store } from '../store/store.js';
import { assertRecordsHere } from '../store/store-folder.js';
import { removeLeftFolders, withTemporaryFolder } from './temporary-folder.js';

export interface SharedFile {
  readonly keys: ApiKeys;
  readonly adminKeys: AdminKeys;
  readonly grants: AccountGrants;
  close(): Promise<void>;
}

/** For a service. */
export async function openSharedFile(config: Config): Promise<SharedFile> {
  const { dataDir: folder, store: url } = config;
  await removeLeftFolders(folder);
  const store = url === null ? openKeys(folder) : await openShared(url, folder, true);
  return sharedFile(config, store);
}

function openShared(url: string, folder: string, follows: boolean): Promise<PostgresShared> {
  return PostgresShared.open({ url, part: 'keys', folder, clock: systemClock, follows });
}

function sharedFile(config: Config, store: Store): SharedFile {
  const { apiKeys: settings, accounts } = config;
  const { accountConcurrency: concurrency, filesPerOwner: files } = config.limits;
  const { fileBytesPerOwner: fileBytes } = config.limits;
  const base = { concurrency, files, fileBytes, ...accounts.default };
  const parts = { store, clock: systemClock, newBytes: systemRandom };
  return {
    keys: new ApiKeys({ ...parts, settings }),
    adminKeys: new AdminKeys(parts),
    grants: new AccountGrants({ store, base, users: accounts.users }),
    close: () => store.close(),
  };
}

/** Where there is no room left at all, keys that are there still open the door. */
function openKeys(folder: string): LmdbStore {
  const name = 'keys';
  const reserve = Reserve.of(folder);
  try {
    // All that is written there is an operator's word: a suspension has no less right than a revocation.
    return LmdbStore.open({ folder, name, exclusive: false, reserve, urgent: true });
  } catch (cause) {
    if (!isFull(cause)) throw cause;
    return LmdbStore.openReadOnly(folder, name);
  }
}

/** Beside a running service, or without one. */
export async function withSharedFile<Result>(
  config: Config,
  act: (file: SharedFile) => Promise<Result> | Result,
): Promise<Result> {
  const { store: url, dataDir } = config;
  if (url === null)
    return await withStore(openKeys(dataDir), (store) => act(sharedFile(config, store)));
  return await withTemporaryFolder(tmpdir(), async (folder) =>
    withStore(await openShared(url, folder, false), (store) => act(sharedFile(config, store))),
  );
}

/** Of a data folder that nothing was made in there is nothing to open. */
function hasShared({ dataDir, store }: Config): boolean {
  return store !== null || existsSync(join(dataDir, 'keys.mdb'));
}

/** Why a list is empty. @param otherwise where there is a data folder. */
export function emptyReason(config: Config, otherwise: string): string {
  return hasShared(config) ? otherwise : `there is no data in ${config.dataDir}`;
}

/** For who only looks, and makes nothing. */
export async function lookAtShared<Result>(
  config: Config,
  act: (file: SharedFile) => Promise<Result> | Result,
): Promise<Result> {
  if (hasShared(config)) return await withSharedFile(config, act);
  assertRecordsHere(config.dataDir);
  return await withStore(new MemoryStore(), (store) => act(sharedFile(config, store)));
}

async function withStore<Result>(
  store: Store,
  act: (store: Store) => Promise<Result> | Result,
): Promise<Result> {
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}
