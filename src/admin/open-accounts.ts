/**
 * Owns the opening of the file that the command line and the server share: keys and grants.
 * It must never open the records, which only one process may have.
 */
import { systemClock, systemRandom } from '../clock.js';
import type { Config } from '../settings/config.js';
import { AccountGrants } from '../store/account-grants.js';
import { ApiKeys } from '../store/keys.js';
import { LmdbStore } from '../store/lmdb-store.js';

export interface SharedFile {
  readonly keys: ApiKeys;
  readonly grants: AccountGrants;
  close(): Promise<void>;
}

export function openSharedFile(config: Config): SharedFile {
  const { dataDir: folder, apiKeys: settings, accounts } = config;
  const store = LmdbStore.open({ folder, name: 'keys', exclusive: false });
  const { accountConcurrency: concurrency, filesPerOwner: files } = config.limits;
  const { fileBytesPerOwner: fileBytes } = config.limits;
  const base = { concurrency, files, fileBytes, ...accounts.default };
  return {
    keys: new ApiKeys({ store, clock: systemClock, newBytes: systemRandom, settings }),
    grants: new AccountGrants({ store, base, users: accounts.users }),
    close: () => store.close(),
  };
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
