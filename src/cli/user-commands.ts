/**
 * Owns what an operator sees of the accounts and does to them, beside a running service or without one.
 * It must never write what accounts have used: the service counts that, and only it.
 */

import { emptyReason, lookAtShared, withSharedFile } from '../admin/open-accounts.js';
import { UserBook } from '../admin/user-book.js';
import { countTags } from '../caches/tag-records.js';
import { systemClock } from '../clock.js';
import { ApiError } from '../errors.js';
import { allFiles } from '../files/records.js';
import type { UserChange } from '../rules/account-change.js';
import { fileBytes } from '../rules/file-state.js';
import { grantNames } from '../settings/accounts.js';
import type { Config } from '../settings/config.js';
import { withOfflineRecords } from './offline-records.js';

/** The command line does not open the records, so it does not know users that have neither a key nor a grant. */
const NO_RECORDS = { has: () => false, all: () => [] };

type Row = Record<string, string>;

/** What one user alone is shown with: a list would be too wide. */
const KEPT = /^(?:file|response|conversation|batch)/;

/** Why a list of them is empty. */
export function noUsers(config: Config): string {
  return emptyReason(config, 'no users; `preface keys create` makes one');
}

export async function listedUsers(config: Config): Promise<Row[]> {
  return await withBook(config, lookAtShared, async (book) =>
    [...(await book.list())].map(([user, keys]) => {
      const { credit, ...policy } = book.policyOf(user);
      const shown = grantNames.filter((name) => !KEPT.test(name));
      return {
        user,
        keys: String(keys),
        ...Object.fromEntries(shown.map((name) => [name, shownValue(policy[name])])),
        credit: shownValue(credit?.tokens ?? null),
        ...(book.isGrantDamaged(user) && { state: `${policy.state} (grant damaged)` }),
      };
    }),
  );
}

export async function shownUser(config: Config, user: string): Promise<object> {
  return await withBook(config, lookAtShared, async (book) => {
    const keys = await book.keysOf(user);
    const kept = await keptBy(config, user);
    const { credit, ...policy } = book.policyOf(user);
    return {
      user,
      ...policy,
      credit: credit?.tokens ?? null,
      kept,
      keys: keys.map(({ keyId }) => keyId),
    };
  });
}

/** What counts against the bounds of the same names. */
async function keptBy(config: Config, user: string): Promise<object> {
  return await withOfflineRecords(config, async (store) => {
    let [files, bytes] = [0, 0];
    for (const file of allFiles(store)) {
      if (file.owner !== user) continue;
      files += 1;
      bytes += fileBytes(file);
    }
    return { files, fileBytes: bytes, tags: await countTags(store, user) };
  });
}

export async function setUser(config: Config, user: string, change: UserChange): Promise<void> {
  await withBook(config, withSharedFile, (book) => book.change(user, change));
}

async function withBook<Result>(
  config: Config,
  open: typeof withSharedFile,
  act: (book: UserBook) => Promise<Result>,
): Promise<Result> {
  const { apiKeys } = config;
  try {
    return await open(config, (file) =>
      act(new UserBook({ file, apiKeys, clock: systemClock, recorded: NO_RECORDS })),
    );
  } catch (cause) {
    if (!(cause instanceof ApiError && cause.row === 'userNotFound')) throw cause;
    const user = cause.values.user_id;
    throw new Error(
      `there is no user ${user}; \`preface users list\` shows them, \`preface keys create --user ${user}\` makes one`,
      { cause },
    );
  }
}

function shownValue(value: unknown): string {
  if (value === null) return '-';
  return Array.isArray(value) ? value.join(',') || 'none' : String(value);
}
