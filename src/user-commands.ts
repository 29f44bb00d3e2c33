/**
 * Owns what an operator sees of the accounts and does to them, beside a running service or without one.
 * It must never write what accounts have used: the service counts that, and only it.
 */
import { systemClock } from './clock.js';
import type { Config } from './config.js';
import { type SharedFile, withSharedFile } from './open-accounts.js';
import type { AccountGrant } from './rules/account-policy.js';
import { grantNames, type UserChange } from './settings/accounts.js';

type Row = Record<string, string>;

export async function listedUsers(config: Config): Promise<Row[]> {
  return await withSharedFile(config, (file) => {
    const keys = file.keys.list();
    return usersOf(file, config).map((user) => {
      const { credit, ...policy } = file.grants.of(user);
      const shown = grantNames.filter((name) => !['files', 'fileBytes'].includes(name));
      return {
        user,
        keys: String(keys.filter((key) => key.user === user).length),
        ...Object.fromEntries(shown.map((name) => [name, shownValue(policy[name])])),
        credit: shownValue(credit?.tokens ?? null),
      };
    });
  });
}

export async function shownUser(config: Config, user: string): Promise<object> {
  return await withSharedFile(config, (file) => {
    assertKnown(file, config, user);
    const { credit, ...policy } = file.grants.of(user);
    const keys = file.keys.list().filter((key) => key.user === user);
    return {
      user,
      ...policy,
      credit: credit?.tokens ?? null,
      keys: keys.map(({ keyId }) => keyId),
    };
  });
}

/** A field that is there without a value goes back to the settings. */
export async function setUser(
  config: Config,
  user: string,
  { fields, balance }: UserChange,
): Promise<void> {
  await withSharedFile(config, async (file) => {
    assertKnown(file, config, user);
    await file.grants.change(user, (stored) => {
      const credit = balance === null ? {} : { credit: creditAfter(stored, balance) };
      const all = Object.entries({ ...stored, ...fields, ...credit });
      return Object.fromEntries(all.filter(([, value]) => value !== undefined)) as AccountGrant;
    });
  });
}

function creditAfter(
  { credit }: AccountGrant,
  change: { readonly tokens: number | null; readonly added: boolean },
): AccountGrant['credit'] {
  const { tokens, added } = change;
  if (tokens === null) return null;
  if (added && credit) return { ...credit, tokens: credit.tokens + tokens };
  // Later than every ledger before, whatever the clock does.
  const ledger = Math.max(systemClock.nowMs(), (credit?.ledger ?? 0) + 1);
  return { ledger, tokens };
}

function usersOf({ keys, grants }: SharedFile, { apiKeys }: Config): string[] {
  const users = [...keys.list(), ...apiKeys].map(({ user }) => user);
  return [...new Set([...users, ...grants.list()])].sort((one, other) => (one < other ? -1 : 1));
}

function assertKnown(file: SharedFile, config: Config, user: string): void {
  if (usersOf(file, config).includes(user)) return;
  throw new Error(
    `there is no user ${user}; \`preface users list\` shows them, \`preface keys create --user ${user}\` makes one`,
  );
}

function shownValue(value: unknown): string {
  if (value === null) return '-';
  return Array.isArray(value) ? value.join(',') || 'none' : String(value);
}
