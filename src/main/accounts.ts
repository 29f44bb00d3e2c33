/**
 * Owns the opening of the accounts: keys, grants, usage, and the gate that requests pass.
 * It must never open the records: it gets them.
 */
import { Accounts } from '../accounts/accounts.js';
import { openSharedFile } from '../admin/open-accounts.js';
import { UserBook } from '../admin/user-book.js';
import { Gate } from '../http/gate.js';
import type { AdminKeys } from '../store/admin-keys.js';
import type { Store } from '../store/store.js';
import { type Context, faultLog } from './context.js';

export interface OpenAccounts {
  readonly gate: Gate;
  readonly accounts: Accounts;
  readonly users: UserBook;
  readonly adminKeys: AdminKeys;
}

export async function openAccounts(context: Context, records: Store): Promise<OpenAccounts> {
  const { config, clock, opened } = context;
  // The command line makes and revokes keys, and changes accounts, while the service runs.
  const shared = opened.add(await openSharedFile(config), (part) => part.close());
  const accounts = new Accounts({ store: records, clock, report: faultLog(context, 'account') });
  opened.add(accounts, (part) => part.close());
  const recorded = {
    has: (user: string) => accounts.hasRecord(user),
    all: () => accounts.recorded(),
  };
  const users = new UserBook({ file: shared, apiKeys: config.apiKeys, clock, recorded });
  const gate = new Gate({ ...shared, accounts, policies: shared.grants, clock });
  return { gate, accounts, users, adminKeys: shared.adminKeys };
}
