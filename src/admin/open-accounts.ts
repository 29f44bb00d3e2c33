/**
 * Owns the opening of the file that the command line and the server share: keys and grants.
 * It must never open the records, which only one process may have.
 */
import { systemClock, systemRandom } from '../clock.js';
import type { Config } from '../settings/config.js';
import { AccountGrants } from '../store/account-grants.js';
import { ApiKeys } from '../store/keys.js';
import { isFull, LmdbStore } from '../store/lmdb-store.js';
import { Reserve } from '../store/reserve.js';

export interface SharedFile {
  readonly keys: ApiKeys;
  readonly grants: AccountGrants;
  close(): Promise<void>;
}

export function openSharedFile(config: Config): SharedFile {
  const { dataDir: folder, apiKeys: settings, accounts } = config;
  const store = openKeys(folder);
  const { accountConcurrency: concurrency, filesPerOwner: files } = config.limits;
  const { fileBytesPerOwner: fileBytes } = config.limits;
  const base = { concurrency, files, fileBytes, ...accounts.default };
  return {
    keys: new ApiKeys({ store, clock: systemClock, newBytes: systemRandom, settings }),
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

export async function withSharedFile<Result>(
  config: Config,
  act: (file: SharedFile) => Promise<Result> | Result,
): Promise<Result> {
  const file = openSharedFile(config);
  try {
    return await act(file);
  } finally {
    await file.close();
  }
}
