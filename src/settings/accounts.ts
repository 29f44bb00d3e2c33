/**
 * Owns how what an account is granted is written: in the settings file's table and on the command line.
 * It must never know who has an account, nor what was stored for it.
 */
import { limits } from '../limits/index.js';
import type { UserChange } from '../rules/account-change.js';
import {
  type AccountGrant,
  type AccountPolicy,
  accountStates,
  apis,
  type GrantName,
} from '../rules/account-policy.js';
import { byteCount, integer, type Kind, words } from './kinds.js';
import { Place } from './place.js';

export interface AccountsConfig {
  /** Of every account that has no entry, and of the fields that an entry leaves out. */
  readonly default: AccountGrant;
  readonly users: ReadonlyMap<string, AccountGrant>;
}

interface GrantRow<Value> {
  readonly kind: Kind<Value>;
  readonly help: string;
}

const { accountTokensMax: TOKENS_MAX, accountCountMax: COUNT_MAX } = limits;
const USER = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const MODEL = /^[\w./:-]{1,128}$/;

export const balanceKind = integer(0, TOKENS_MAX);

export const grantTable: { readonly [Name in GrantName]: GrantRow<AccountPolicy[Name]> } = {
  state: { kind: oneOf(accountStates), help: 'anything but active is a 403 for every request' },
  concurrency: { kind: integer(1, COUNT_MAX), help: 'requests at the same time' },
  rpm: { kind: unbounded(integer(1, COUNT_MAX)), help: 'requests in any 60 seconds' },
  tpm: {
    kind: unbounded(integer(1, TOKENS_MAX)),
    help: 'tokens of chats, prompt and answer, in any 60 seconds',
  },
  tpd: { kind: unbounded(integer(1, TOKENS_MAX)), help: 'the same in any 24 hours' },
  files: { kind: integer(0, limits.filesPerOwnerMax), help: 'files it may keep' },
  fileBytes: {
    kind: byteCount(0, limits.fileBytesPerOwnerMax),
    help: 'size of all its files together',
  },
  cachedTokens: { kind: integer(0, TOKENS_MAX), help: 'tokens of all its live caches' },
  models: {
    kind: listOf('model ids with commas, or all', (word) => MODEL.test(word)),
    help: 'models that are open to it; others are a 404',
  },
  apis: {
    kind: listOf(`${apis.join(', ')} with commas, or all`, (word) =>
      (apis as readonly string[]).includes(word),
    ) as Kind<AccountPolicy['apis']>,
    help: 'APIs that are open to it; others are a 403',
  },
};

export const grantNames = Object.keys(grantTable) as GrantName[];

export function readAccounts(raw: unknown, place: Place): AccountsConfig {
  const table = place.object(raw);
  place.checkKeys(table, ['default', 'users']);
  const at = place.in('users');
  const users = Object.entries(at.object(table.users ?? {})).map(([user, value]) => {
    if (!USER.test(user) || user.length > limits.ownerLengthMax) {
      throw at.wrong(JSON.stringify(user), 'user names of A-Z a-z 0-9 . _ -');
    }
    return [user, readGrant(value, at.in(user))] as const;
  });
  return {
    default: readGrant(table.default ?? {}, place.in('default')),
    users: new Map(users),
  };
}

function readGrant(raw: unknown, place: Place): AccountGrant {
  const entry = place.object(raw);
  place.checkKeys(entry, grantNames);
  const given = grantNames.filter((name) => entry[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, readField(name, entry[name], place)]));
}

function readField(name: GrantName, raw: unknown, place: Place): unknown {
  const kind: Kind<unknown> = grantTable[name].kind;
  return place.in(name).read(kind, raw);
}

/** Takes a field back to what the settings say. */
const GIVEN_BACK = 'default';

interface Options {
  option(flags: string, description: string): this;
}

/** One flag for each field, and one for the balance. */
export function addGrantFlags<Command extends Options>(command: Command): Command {
  for (const name of grantNames) {
    const { kind, help } = grantTable[name];
    command.option(`${grantFlag(name)} <value>`, `${help} (${kind.allowed}, or ${GIVEN_BACK})`);
  }
  return command.option(
    '--balance <value>',
    `tokens to use up, from now on (${unbounded(balanceKind).allowed})`,
  );
}

/** @param more tokens to add to the balance. */
export function readUserFlags(
  flags: Readonly<Record<string, string | undefined>>,
  more?: string,
): UserChange {
  const given = grantNames.filter((name) => flags[name] !== undefined);
  const fields = given.map((name) => {
    const text = flags[name];
    return [name, text === GIVEN_BACK ? undefined : readField(name, text, flagPlace(name))];
  });
  return { fields: Object.fromEntries(fields), balance: readBalance(flags.balance, more) };
}

function readBalance(set: string | undefined, more: string | undefined): UserChange['balance'] {
  const at = flagPlace('balance');
  if (more !== undefined) return { tokens: at.read(balanceKind, more), added: true };
  if (set === undefined) return null;
  return { tokens: at.read(unbounded(balanceKind), set), added: false };
}

function flagPlace(name: string): Place {
  return new Place('', `flag ${grantFlag(name)}`, '/', '/');
}

/** `fileBytes` is `--file-bytes`. */
export function grantFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** The README's table; a test holds the two together. */
export function grantsMarkdown(policy: AccountPolicy): string {
  const rows = grantNames.map((name) => {
    const { kind, help } = grantTable[name];
    const value = policy[name];
    const fallback = value === null ? kind.allowed.split(' or ').at(-1) : String(value);
    return `| \`${name}\` | \`${grantFlag(name)}\` | ${fallback} | ${kind.allowed} | ${help} |`;
  });
  return [
    '| key in `accounts` | flag of `users set` | default | allowed | what it is |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

function oneOf<Word extends string>(allowed: readonly Word[]): Kind<Word> {
  return {
    allowed: allowed.join(', '),
    read: (raw) => allowed.find((word) => word === raw),
  };
}

function unbounded(kind: Kind<number>): Kind<number | null> {
  return {
    allowed: `${kind.allowed}, or none`,
    read: (raw, ...where) => (raw === null || raw === 'none' ? null : kind.read(raw, ...where)),
  };
}

function listOf(allowed: string, good: (word: string) => boolean): Kind<readonly string[] | null> {
  return {
    allowed,
    read(raw) {
      if (raw === null || raw === 'all') return null;
      const list = words(raw);
      return list?.every(good) ? list : undefined;
    },
  };
}
