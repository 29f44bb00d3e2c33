/**
 * Owns how the grants of an account are written: in the settings file and as flags of `users set`.
 * It must never know which accounts exist, nor what is stored for them.
 */
import { limits } from '../limits/index.js';
import type { UserChange } from '../rules/account-change.js';
import {
  type AccountGrant,
  type AccountPolicy,
  accountStates,
  apis,
  type GrantName,
  USER_HEADER_PATTERN,
} from '../rules/account-policy.js';
import { tableMarkdown } from './fields.js';
import { byteCount, integer, oneOf, words } from './kinds.js';
import { pluginFinder } from './plugins.js';
import { type Kind, SettingPath } from './setting-path.js';
import { flagOf } from './table.js';

export interface AccountsConfig {
  /** For accounts without an entry, and for the fields that an entry leaves out. */
  readonly default: AccountGrant;
  readonly users: ReadonlyMap<string, AccountGrant>;
}

interface GrantRow<Value> {
  readonly kind: Kind<Value>;
  readonly help: string;
}

const {
  accountTokensMax: TOKENS_MAX,
  accountCountMax: COUNT_MAX,
  accountKeptBytesMax: KEPT_BYTES_MAX,
} = limits;
const USER = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const HEADER = new RegExp(USER_HEADER_PATTERN);
const MODEL = /^[\w./:-]{1,128}$/;

export const balanceKind = integer(0, TOKENS_MAX);

export const grantTable: { readonly [Name in GrantName]: GrantRow<AccountPolicy[Name]> } = {
  state: {
    kind: oneOf(...accountStates),
    help: 'every new request of an account that is not active is a 403; those that run end within 5 seconds, but go on where it is draining',
  },
  concurrency: { kind: integer(1, COUNT_MAX), help: 'requests at the same time' },
  rpm: { kind: unbounded(integer(1, COUNT_MAX)), help: 'requests in any 60 seconds' },
  tpm: {
    kind: unbounded(integer(1, TOKENS_MAX)),
    help: 'tokens of chats (prompt and answer) in any 60 seconds',
  },
  tpd: {
    kind: unbounded(integer(1, TOKENS_MAX)),
    help: 'tokens of chats (prompt and answer) in any 24 hours',
  },
  files: { kind: integer(0, limits.filesPerOwnerMax), help: 'files it may have' },
  fileBytes: {
    kind: byteCount(0, limits.fileBytesPerOwnerMax),
    help: 'size of all its files together, uploads and extracted texts',
  },
  cachedTokens: { kind: integer(0, TOKENS_MAX), help: 'tokens of all its live caches' },
  tags: { kind: integer(0, COUNT_MAX), help: 'tags it may have' },
  responses: {
    kind: integer(1, COUNT_MAX),
    help: 'kept responses it may have: the oldest make room for new ones',
  },
  responseBytes: {
    kind: byteCount(limits.accountResponseBytesMin, KEPT_BYTES_MAX),
    help: 'size of all its kept responses together',
  },
  conversations: { kind: integer(0, COUNT_MAX), help: 'conversations it may have' },
  conversationBytes: {
    kind: byteCount(0, KEPT_BYTES_MAX),
    help: 'size of all its conversations together',
  },
  batches: {
    kind: integer(0, COUNT_MAX),
    help: 'batches it may have: the oldest make room for new ones',
  },
  batchBytes: {
    kind: byteCount(0, KEPT_BYTES_MAX),
    help: 'size of the results of its running batches, until their files are written',
  },
  models: {
    kind: listOf('model ids separated by commas, or all', (word) => MODEL.test(word)),
    help: 'models it may use; others are a 404',
  },
  apis: {
    kind: listOf(`${apis.join(', ')}, separated by commas, or all`, (word) =>
      (apis as readonly string[]).includes(word),
    ) as Kind<AccountPolicy['apis']>,
    help: 'APIs it may use; others are a 403',
  },
  userHeader: {
    kind: headerName('a header name that begins with x-, or none'),
    help: 'header in which its keys name one of its people, each with caches and files of their own',
  },
};

export const grantNames = Object.keys(grantTable) as GrantName[];

export function readAccounts(raw: unknown, at: SettingPath): AccountsConfig {
  const table = at.object(raw);
  at.checkKeys(table, ['default', 'users']);
  const path = at.in('users');
  const users = Object.entries(path.object(table.users ?? {})).map(([user, value]) => {
    if (!USER.test(user) || user.length > limits.ownerLengthMax) {
      throw path.wrong(JSON.stringify(user), 'user names of A-Z a-z 0-9 . _ -');
    }
    return [user, readGrant(value, path.in(user))] as const;
  });
  return {
    default: readGrant(table.default ?? {}, at.in('default')),
    users: new Map(users),
  };
}

function readGrant(raw: unknown, at: SettingPath): AccountGrant {
  const entry = at.object(raw);
  at.checkKeys(entry, grantNames);
  const given = grantNames.filter((name) => entry[name] !== undefined);
  return Object.fromEntries(
    given.map((name) => [name, at.in(name).read<unknown>(grantTable[name].kind, entry[name])]),
  );
}

/** Whether a stored grant holds nothing but what an operator could have granted. */
export function isGrant(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).every(([name, field]) => {
    if (name === 'credit') return field === null || isCredit(field);
    return isGrantName(name) && isGranted(name, field);
  });
}

function isGrantName(name: string): name is GrantName {
  return (grantNames as readonly string[]).includes(name);
}

function isGranted(name: GrantName, field: unknown): boolean {
  try {
    flagPath(name).read<unknown>(grantTable[name].kind, field);
    return true;
  } catch {
    return false;
  }
}

function isCredit(value: unknown): boolean {
  const { ledger, tokens } = Object(value) as Record<string, unknown>;
  const isCount = (number: unknown) =>
    Number.isSafeInteger(number) && Number(number) >= 0 && Number(number) <= TOKENS_MAX;
  return Number.isSafeInteger(ledger) && isCount(tokens);
}

/** The value of a flag that takes a field back to what the settings say. */
const AS_SETTINGS = 'default';

interface Options {
  option(flags: string, description: string): this;
}

/** One flag for each field, and one for the balance. */
export function addGrantFlags<Command extends Options>(command: Command): Command {
  for (const name of grantNames) {
    const { kind, help } = grantTable[name];
    command.option(`${flagOf(name)} <value>`, `${help} (${kind.allowed}, or ${AS_SETTINGS})`);
  }
  return command.option(
    '--balance <value>',
    `tokens that the account may use from now on (${unbounded(balanceKind).allowed})`,
  );
}

/** @param more tokens to add to the balance. @throws Error that names the flag. */
export function readUserFlags(
  flags: Readonly<Record<string, string | undefined>>,
  more?: string,
): UserChange {
  const given = grantNames.filter((name) => flags[name] !== undefined);
  const fields = given.map((name) => {
    const text = flags[name];
    const kind: Kind<unknown> = grantTable[name].kind;
    return [name, text === AS_SETTINGS ? undefined : flagPath(name).read(kind, text)];
  });
  return { fields: Object.fromEntries(fields), balance: readBalance(flags.balance, more) };
}

function readBalance(set: string | undefined, more: string | undefined): UserChange['balance'] {
  const at = flagPath('balance');
  if (more !== undefined) return { tokens: at.read(balanceKind, more), added: true };
  if (set === undefined) return null;
  return { tokens: at.read(unbounded(balanceKind), set), added: false };
}

function flagPath(name: string): SettingPath {
  const readFile = () => '';
  const folders = { folder: '/', homeDir: '/' };
  const origin = { name: `flag ${flagOf(name)}`, ...folders, plugins: pluginFinder, readFile };
  return new SettingPath(name, origin);
}

/** The table of the documents; a test holds the two together. */
export function grantsMarkdown(policy: AccountPolicy): string {
  return tableMarkdown(
    ['key in `accounts`', 'flag of `users set`', 'default', 'allowed', 'what it is'],
    grantNames.map((name) => {
      const { kind, help } = grantTable[name];
      const value = policy[name];
      const fallback = value === null ? kind.allowed.split(' or ').at(-1) : String(value);
      return [`\`${name}\``, `\`${flagOf(name)}\``, fallback ?? '', kind.allowed, help];
    }),
  );
}

function unbounded(kind: Kind<number>): Kind<number | null> {
  return {
    allowed: `${kind.allowed}, or none`,
    read: (raw, ...where) => (raw === null || raw === 'none' ? null : kind.read(raw, ...where)),
  };
}

function headerName(allowed: string): Kind<string | null> {
  return {
    allowed,
    read(raw) {
      if (raw === null || raw === 'none') return null;
      return typeof raw === 'string' && HEADER.test(raw) ? raw : undefined;
    },
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
