/**
 * Owns the commands about API keys, with or without a running service.
 * It must never print a key later than when it is made, nor leave one that nobody saw.
 */
import { emptyReason, lookAtShared, withSharedFile } from '../admin/open-accounts.js';
import type { Config } from '../settings/config.js';
import { assertOwner, type KeyInfo } from '../store/keys.js';
import { note, print, printed, printRows } from './print.js';
import { rightly } from './settings.js';

/** Whose an admin key is: no user has this name. */
const OPERATOR = '(operator)';

/** In a data folder that has no key yet: one for the first user, and one for the console if the settings have none. */
export async function makeFirstKeys(config: Config, user: string): Promise<void> {
  await withSharedFile(config, async ({ keys, adminKeys }) => {
    if (keys.list().length > 0) return;
    const { key, keyId } = await keys.create(user);
    await shownOnce(`API key of the first user, shown only now: ${key}`, keys, keyId);
    if (config.adminKey !== null || adminKeys.exist) return;
    const admin = await adminKeys.create();
    const line = `admin key of the console, shown only now: ${admin.key}`;
    await shownOnce(line, adminKeys, admin.keyId);
  });
}

export async function createAdminKey(config: Config): Promise<void> {
  await withSharedFile(config, async ({ adminKeys }) => {
    const { key, keyId } = await adminKeys.create();
    note(`admin key ${keyId}, shown only now; it opens /console and /admin/v1:`);
    await shownOnce(key, adminKeys, keyId);
  });
}

export async function createKey(config: Config, owner: string): Promise<void> {
  rightly(() => assertOwner(owner));
  await withSharedFile(config, async ({ keys }) => {
    const { key, keyId, user } = await keys.create(owner);
    note(`key ${keyId} of user ${user}, shown only now:`);
    await shownOnce(key, keys, keyId);
  });
}

interface Revokes {
  revoke(keyId: string): Promise<boolean>;
}

async function shownOnce(line: string, keys: Revokes, keyId: string): Promise<void> {
  try {
    await printed(line);
  } catch (cause) {
    await keys.revoke(keyId);
    throw cause;
  }
}

export async function listKeys(config: Config, flags: { readonly json?: unknown }): Promise<void> {
  await lookAtShared(config, ({ keys, adminKeys }) => {
    const admins = adminKeys.list().map((info) => ({ ...info, user: OPERATOR }));
    const rows = [...keys.list(), ...admins].map(keyRow);
    const none = 'no stored keys; `preface keys create --user NAME` makes one';
    printRows(rows, flags, emptyReason(config, none));
  });
}

function keyRow({ keyId, user, createdS, shown }: KeyInfo): Record<string, string> {
  return { id: keyId, user, created: new Date(createdS * 1000).toISOString(), key: shown };
}

export async function revokeKey(config: Config, id: string): Promise<void> {
  await withSharedFile(config, async ({ keys, adminKeys }) => {
    if ((await keys.revoke(id)) || (await adminKeys.revoke(id))) return void print(`revoked ${id}`);
    throw new Error(`there is no stored key ${id}; \`preface keys list\` shows them`);
  });
}
