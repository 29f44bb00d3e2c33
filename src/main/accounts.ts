/**
 * Owns the opening of the records and of the accounts: keys, grants, usage, and the gate that requests pass.
 * It must never open the records for more than this process.
 */
import { Accounts } from '../accounts/accounts.js';
import { openSharedFile } from '../admin/open-accounts.js';
import { UserBook } from '../admin/user-book.js';
import { Gate } from '../http/gate.js';
import { isFull, LmdbStore, type LmdbStoreOptions } from '../store/lmdb-store.js';
import { Reserve } from '../store/reserve.js';
import type { Store } from '../store/store.js';
import { type Context, faultLog } from './context.js';

export function openRecords({ config, log, opened }: Context): Store {
  const { dataDir: folder, limits } = config;
  const bytesMax = limits.recordsBytes;
  const reserve = Reserve.of(folder);
  const name = 'records';
  const store = orReadOnly({ folder, name, exclusive: true, bytesMax, reserve }, log);
  if (!reserve.fill()) log(FULL);
  return opened.add(store, (part) => part.close());
}

const FULL =
  'the disk of the data folder is full: nothing that adds something is taken until there is room';

/** A service that only reads is worth more than none: what is there is served. */
function orReadOnly(
  options: LmdbStoreOptions & { readonly name: string },
  log: Context['log'],
): LmdbStore {
  try {
    return LmdbStore.open(options);
  } catch (cause) {
    if (!isFull(cause)) throw cause;
    log(
      'the disk of the data folder is full, and no reserve is left: started read-only; make room, then start again',
    );
    return LmdbStore.openReadOnly(options.folder, options.name);
  }
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
