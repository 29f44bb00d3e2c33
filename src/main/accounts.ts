/**
 * Owns the opening of the accounts: usage, and the gate that requests pass.
 * It must never open the records, the keys or the grants: it gets them.
 */
import { Accounts } from '../accounts/accounts.js';
import type { SharedFile } from '../admin/open-accounts.js';
import { UserBook } from '../admin/user-book.js';
import { Gate } from '../http/gate.js';
import type { Store } from '../store/store.js';
import { type Context, faultLog } from './context.js';

export interface OpenAccounts {
  readonly gate: Gate;
  readonly accounts: Accounts;
  readonly users: UserBook;
}

export function openAccounts(context: Context, records: Store, file: SharedFile): OpenAccounts {
  const { config, clock, opened } = context;
  const accounts = new Accounts({ store: records, clock, report: faultLog(context, 'account') });
  opened.add(accounts, (part) => part.close());
  const recorded = {
    has: (user: string) => accounts.hasRecord(user),
    all: () => accounts.recorded(),
  };
  const users = new UserBook({ file, apiKeys: config.apiKeys, clock, recorded });
  const gate = new Gate({ keys: file.keys, accounts, policies: file.grants, clock });
  return { gate, accounts, users };
}
