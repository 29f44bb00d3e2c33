/**
 * Owns the opening of the records and of the accounts: keys, grants, usage, and the gate that requests pass.
 * It must never open the records for more than this process.
 */
import { Accounts } from '../accounts/accounts.js';
import { openSharedFile } from '../admin/open-accounts.js';
import { UserBook } from '../admin/user-book.js';
import { Gate } from '../http/gate.js';
import { LmdbStore } from '../store/lmdb-store.js';
import type { Store } from '../store/store.js';
import { type Context, faultLog } from './context.js';

export function openRecords({ config, opened }: Context): Store {
  const { dataDir: folder, limits } = config;
  const bytesMax = limits.recordsBytes;
  const store = LmdbStore.open({ folder, name: 'records', exclusive: true, bytesMax });
  return opened.add(store, (part) => part.close());
}

export interface OpenAccounts {
  readonly gate: Gate;
  readonly accounts: Accounts;
  readonly users: UserBook;
}

export function openAccounts(context: Context, records: Store): OpenAccounts {
  const { config, clock, opened } = context;
  // The command line makes and revokes keys, and changes accounts, while the service runs.
  const shared = opened.add(openSharedFile(config), (part) => part.close());
  const accounts = new Accounts({ store: records, clock, report: faultLog(context, 'account') });
  opened.add(accounts, (part) => part.close());
  const recorded = {
    has: (user: string) => accounts.hasRecord(user),
    all: () => accounts.recorded(),
  };
  const users = new UserBook({ file: shared, apiKeys: config.apiKeys, clock, recorded });
  return { gate: new Gate(shared.keys, accounts, shared.grants), accounts, users };
}
