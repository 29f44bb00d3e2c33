/**
 * Owns the routes that tell an operator of all users, on a node that serves some of them: they read its copies of all records.
 * It must never write, nor show a part of the users for all of them.
 */
import { Accounts } from '../accounts/accounts.js';
import { UserBook } from '../admin/user-book.js';
import { listAllCaches } from '../caches/list.js';
import { cacheKeys } from '../caches/records.js';
import { Tags } from '../caches/tags.js';
import { decodeWhole } from '../codec.js';
import { listAllFiles } from '../files/all-files.js';
import { fileKeys } from '../files/records.js';
import { AdminGate } from '../http/admin/gate.js';
import { adminListsOfAll } from '../http/admin/owned.js';
import { adminUserList, listUsers } from '../http/admin/users.js';
import { unavailable } from '../http/forward.js';
import type { Route } from '../http/router.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { FileRecord } from '../rules/file-state.js';
import type { Store, StoreKey } from '../store/store.js';
import { UnionStore } from '../store/union-store.js';
import { type Context, faultLog } from './context.js';
import type { Standing } from './records.js';
import type { Shared } from './shared.js';

type AllParts = Pick<Shared, 'file' | 'operator' | 'doctor'>;

export function allRoutes(
  context: Context,
  { file, operator, doctor }: AllParts,
  standings: readonly Standing[],
): Route[] {
  const { config, clock } = context;
  const gate = new AdminGate(operator);
  const store = allRecords(standings);
  const parts = { store, clock, report: faultLog(context, 'list') };
  const read = <Record>(key: StoreKey): Record | null => {
    const found = store.get(key);
    return found && decodeWhole<Record>(found.value);
  };
  const cache = (id: string) => read<CacheRecord>(cacheKeys.record(id));
  const source = { page: store.page, read: cache, current: async (id: string) => cache(id) };
  const caches = {
    recordsOfAll: (query: Parameters<typeof listAllCaches>[0]) => listAllCaches(query, source),
    tags: new Tags({ ...parts, max: () => 0 }),
  };
  const files = {
    listOfAll: (query: Parameters<typeof listAllFiles>[0]) =>
      listAllFiles(query, store, (id) => read<FileRecord>(fileKeys.record(id))),
  };
  const ofUsers = async ({ query }: { readonly query: string }) => {
    // Their usage is read anew for each list: other nodes write it.
    const accounts = new Accounts(parts);
    const recorded = {
      has: (user: string) => accounts.hasRecord(user),
      all: () => accounts.recorded(),
    };
    const users = new UserBook({ file, apiKeys: config.apiKeys, clock, recorded });
    try {
      return await listUsers({ users, accounts, clock }, query);
    } finally {
      await accounts.close();
    }
  };
  return [adminUserList(gate, ofUsers), ...adminListsOfAll(gate, { caches, files, doctor })];
}

/** @throws ApiError `unavailable` while the records of some users go to another node. */
function allRecords(standings: readonly Standing[]): Store {
  const now = () =>
    new UnionStore(
      standings.map(({ copy }) => {
        if (copy === null) throw unavailable('a share of the users goes to another node');
        return copy;
      }),
    );
  return {
    get: (key) => now().get(key),
    page: (range) => now().page(range),
    commit: () => now().commit(),
    flushed: async () => {},
    close: async () => {},
  };
}
