/**
 * Owns the kinds of value a setting can have: what is allowed, in words, and the reading that agrees with those words.
 * It must never know which setting it reads for, nor touch the machine.
 */
import { join, resolve } from 'node:path';
import { limits } from '../limits/index.js';

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

/** A kind of value: `read` gives undefined for what is not allowed. */
export interface Kind<Value> {
  readonly allowed: string;
  /** `folder` is what a relative path is relative to: where the text was written. */
  read(raw: unknown, folder: string, homeDir: string): Value | undefined;
  /** Says what came where the value itself is a secret. */
  describe?(raw: unknown): string;
}

export function integer(min: number, max: number): Kind<number> {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    read(raw) {
      const value = typeof raw === 'string' && /^\d{1,15}$/.test(raw) ? Number(raw) : raw;
      return Number.isInteger(value) && (value as number) >= min && (value as number) <= max
        ? (value as number)
        : undefined;
    },
  };
}

export function pattern(form: RegExp, allowed: string): Kind<string> {
  return {
    allowed,
    read: (raw) => (typeof raw === 'string' && form.test(raw) ? raw : undefined),
  };
}

export function flag(): Kind<boolean> {
  const words = new Map<unknown, boolean>([
    [true, true],
    ['true', true],
    ['1', true],
    [false, false],
    ['false', false],
    ['0', false],
  ]);
  return { allowed: 'true or false', read: (raw) => words.get(raw) };
}

export function oneOf<Word extends string>(...allowed: readonly Word[]): Kind<Word> {
  return {
    allowed: allowed.join(' or '),
    read: (raw) => allowed.find((word) => word === raw),
  };
}

export function path(): Kind<string> {
  return {
    allowed: 'a path',
    read: (raw, folder, homeDir) => absolutePath(raw, folder, homeDir),
  };
}

/** A shell expands `~`; a JSON file and a container's environment do not. */
export function absolutePath(raw: unknown, folder: string, homeDir: string): string | undefined {
  if (typeof raw !== 'string' || raw === '' || raw.includes('\0')) return undefined;
  return raw === '~' || raw.startsWith('~/') ? join(homeDir, raw.slice(1)) : resolve(folder, raw);
}

const byteUnits = new Map([
  ['', 1],
  ['b', 1],
  ['kib', 2 ** 10],
  ['mib', MIB],
  ['gib', GIB],
  ['tib', 1024 * GIB],
  ['kb', 1e3],
  ['mb', 1e6],
  ['gb', 1e9],
  ['tb', 1e12],
]);

export function byteCount(min: number, max: number): Kind<number> {
  return {
    allowed: `a size from ${min / MIB}MiB to ${max / GIB}GiB, like 8GiB or 512MiB`,
    read(raw) {
      const [, digits, unit] = /^(\d{1,15}(?:\.\d{1,3})?) ?([a-z]*)$/i.exec(String(raw)) ?? [];
      const size = byteUnits.get((unit ?? '?').toLowerCase());
      const bytes = size === undefined ? Number.NaN : Math.floor(Number(digits) * size);
      return bytes >= min && bytes <= max ? bytes : undefined;
    },
  };
}

export function threadPair(): Kind<{ single: number; batch: number } | null> {
  return {
    allowed: 'auto, or threads of a lone stream and of a batch (each 1 to 256), like 1,2',
    read(raw) {
      if (raw === 'auto') return null;
      const [, single, batch] = /^(\d{1,3}) ?, ?(\d{1,3})$/.exec(String(raw)) ?? [];
      const pair = { single: Number(single), batch: Number(batch) };
      const good = [pair.single, pair.batch].every((n) => n >= 1 && n <= 256);
      return good ? pair : undefined;
    },
  };
}

/** Text with commas, or in the file a list of strings. */
export function words(raw: unknown): string[] | undefined {
  const list = typeof raw === 'string' ? raw.split(',') : raw;
  if (!Array.isArray(list)) return undefined;
  if (!list.every((entry) => typeof entry === 'string')) return undefined;
  return list.map((entry) => entry.trim()).filter((entry) => entry !== '');
}

/** Names with commas, each of this form, none twice, and at least one of them. */
export function nameList(form: RegExp, allowed: string): Kind<readonly string[]> {
  return {
    allowed,
    read(raw) {
      const list = words(raw);
      const good = list?.every((name, at) => form.test(name) && list.indexOf(name) === at);
      return good === true && list?.length ? list : undefined;
    },
  };
}

/** A plugin, and the file it is opened with. */
export interface PluginEntry {
  readonly name: string;
  readonly file: string | null;
}

/** `NAME` or `NAME=FILE`; a relative file lies where the text was written. */
export function pluginList(countMax: number): Kind<readonly PluginEntry[]> {
  return {
    allowed: `at most ${countMax} with commas: a built-in name, a path or a package, each with =FILE where it needs one, like words=terms.txt`,
    read(raw, folder, homeDir) {
      const entries = words(raw)?.map((text) => pluginEntry(text, folder, homeDir));
      const good = entries !== undefined && entries.length <= countMax;
      return good && entries.every((entry) => entry !== undefined) ? entries : undefined;
    },
  };
}

function pluginEntry(text: string, folder: string, homeDir: string): PluginEntry | undefined {
  const [, name, written] = /^([^\s,=]{1,1024})(?:=(.{1,4096}))?$/.exec(text) ?? [];
  if (name === undefined) return undefined;
  const file = written === undefined ? null : absolutePath(written.trim(), folder, homeDir);
  return file === undefined ? undefined : { name, file };
}

export function originList(): Kind<readonly string[]> {
  const good = (text: string) =>
    text === '*' || (URL.canParse(text) && new URL(text).origin === text);
  return {
    allowed: 'origins with commas, like https://app.example, or *',
    read(raw) {
      const list = words(raw);
      return list?.every(good) ? list : undefined;
    },
  };
}

/** Never shown, not even when it is wrong. */
export function secret(lengthMin = 1): Kind<string | null> {
  const length = lengthMin > 1 ? `${lengthMin} to` : 'at most';
  return {
    allowed: `printable ASCII without spaces (${length} ${limits.keyBytesMax})`,
    read: (raw) =>
      typeof raw === 'string' &&
      /^[\x21-\x7e]+$/.test(raw) &&
      raw.length >= lengthMin &&
      raw.length <= limits.keyBytesMax
        ? raw
        : undefined,
    describe: () => 'a value that is not shown',
  };
}

export interface KeyEntry {
  readonly user: string;
  readonly key: string;
}

function keyEntry(text: string): KeyEntry | undefined {
  const [, user, key] = /^([A-Za-z0-9][A-Za-z0-9._-]*):([\x21-\x7e]+)$/.exec(text) ?? [];
  if (user === undefined || key === undefined) return undefined;
  return user.length <= limits.ownerLengthMax && key.length <= limits.keyBytesMax
    ? { user, key }
    : undefined;
}

export function keyList(): Kind<readonly KeyEntry[]> {
  return {
    allowed: `user:key pairs with commas, users of A-Z a-z 0-9 . _ - (at most ${limits.ownerLengthMax}), keys of printable ASCII (at most ${limits.keyBytesMax}), no key twice`,
    read(raw) {
      const entries = words(raw)?.map(keyEntry);
      if (!entries?.every((entry) => entry !== undefined)) return undefined;
      const different = new Set(entries.map((entry) => entry.key));
      return different.size === entries.length ? entries : undefined;
    },
    describe(raw) {
      const wrong = words(raw)?.findIndex((entry) => !keyEntry(entry)) ?? -1;
      return wrong < 0
        ? 'a value that is not shown'
        : `entry ${wrong + 1} in another form (not shown)`;
    },
  };
}
