/**
 * Owns the commands about API keys, with or without a running service.
 * It must never print a key later than when it is made.
 */

import { withSharedFile } from '../admin/open-accounts.js';
import type { Config } from '../settings/config.js';
import type { KeyInfo } from '../store/keys.js';
import { note, print, printRows } from './print.js';

export async function makeFirstKey(config: Config, user: string): Promise<void> {
  await withSharedFile(config, async ({ keys }) => {
    if (keys.list().length > 0) return;
    const { key } = await keys.create(user);
    print(`API key of the first user, shown only now: ${key}`);
  });
}

export async function createKey(config: Config, owner: string): Promise<void> {
  await withSharedFile(config, async ({ keys }) => {
    const { key, keyId, user } = await keys.create(owner);
    note(`key ${keyId} of user ${user}, shown only now:`);
    print(key);
  });
}

export async function listKeys(config: Config, flags: { readonly json?: unknown }): Promise<void> {
  await withSharedFile(config, ({ keys }) => {
    const rows = keys.list().map(keyRow);
    printRows(rows, flags, 'no stored keys; `preface keys create --user NAME` makes one');
  });
}

function keyRow({ keyId, user, createdS, shown }: KeyInfo): Record<string, string> {
  return { id: keyId, user, created: new Date(createdS * 1000).toISOString(), key: shown };
}

export async function revokeKey(config: Config, id: string): Promise<void> {
  await withSharedFile(config, async ({ keys }) => {
    if (await keys.revoke(id)) return void print(`revoked ${id}`);
    throw new Error(`there is no stored key ${id}; \`preface keys list\` shows them`);
  });
}
