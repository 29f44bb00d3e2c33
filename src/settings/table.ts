/**
 * Owns the one table of the service's settings. Flags, environment variables, keys of the settings file, checks, static
 * types, `--help` and the documents follow from it. It must never read a file, the environment or the clock.
 */
import { isAbsolute, join } from 'node:path';
import { limits } from '../limits/index.js';
import { defaultText, type Fields, tableMarkdown, type Values } from './fields.js';
import {
  boolean,
  byteCount,
  GIB,
  integer,
  keyList,
  MIB,
  nameList,
  oneOf,
  originList,
  path,
  pattern,
  plugin,
  pluginList,
  pluginsWithFiles,
  secret,
  threadPair,
} from './kinds.js';
import type { Machine } from './machine.js';

export const settings = {
  host: {
    kind: pattern(/^[\w.:-]{1,253}$/, 'a host name or an IP address'),
    default: '127.0.0.1',
    help: 'address to listen on; 0.0.0.0 opens the service to the network',
  },
  port: {
    kind: integer(0, 65_535),
    default: 8080,
    help: 'port to listen on; 0 takes any free one',
  },
  dataDir: {
    kind: path(),
    default: (machine: Machine) => userFolder(machine, 'data'),
    defaultText: '~/.local/share/preface',
    help: 'folder of the database and the files, for one running service',
  },
  modelsDir: {
    kind: path(),
    default: (machine: Machine) => join(userFolder(machine, 'cache'), 'models'),
    defaultText: '~/.cache/preface/models',
    help: 'folder of the weights, which several services may share',
  },
  /** They may have any form, and are not written to the store. */
  apiKeys: {
    kind: keyList(),
    default: [],
    help: 'API keys besides the stored ones; all users of the machine can see a flag',
  },
  engine: {
    kind: plugin('engine', 'llama, echo, or a plugin (a path or a package name)'),
    default: 'llama',
    help: 'engine of the models that name none; echo needs no weights',
  },
  exact: {
    kind: boolean(),
    default: true,
    help: 'whether a reused prefix gives exactly the answer of a run without reuse; false is faster',
  },
  threads: {
    kind: threadPair(),
    default: 'auto',
    help: 'engine threads for a single stream and for a batch; auto measures once',
  },
  slots: { kind: integer(1, 64), default: 4, help: 'chats that one model runs at the same time' },
  memory: {
    kind: byteCount(64 * MIB, 64 * 1024 * GIB),
    default: (machine: Machine) => Math.floor(machine.memoryBytes / 2),
    defaultText: 'half of the memory',
    help: 'memory for the contexts of all models; a model that does not fit is not offered',
  },
  snapshotDisk: {
    kind: byteCount(64 * MIB, 64 * 1024 * GIB),
    default: '8GiB',
    help: 'disk space for the prefilled prefixes of caches; the least recently used are removed first, also when the disk is full',
  },
  /** An empty list switches CORS off. */
  corsOrigins: { kind: originList(), default: [], help: 'origins that browsers may call from' },
  tokenizeThreads: {
    kind: integer(1, 64),
    default: (machine: Machine) => Math.max(1, Math.min(4, machine.cores >> 1)),
    defaultText: 'half of the cores, at most 4',
    help: 'threads that count tokens',
  },
  extractors: {
    kind: pluginList(
      'extractor',
      'names separated by commas, like text,html, or plugins (paths or package names)',
    ),
    default: null,
    defaultText: 'all built-in ones',
    help: 'plugins that read uploaded documents; of two that accept a document equally well, the first reads it',
  },
  extractProcesses: {
    kind: integer(1, 64),
    default: (machine: Machine) => Math.max(1, Math.min(4, machine.cores)),
    defaultText: 'the cores, at most 4',
    help: 'processes that read documents, each of them one document at a time',
  },
  ocrLanguages: {
    kind: nameList(
      /^[a-z]{3}(_[a-z]{2,8}){0,2}$/,
      'names of languages as tesseract has them, separated by commas, like eng,chi_sim',
    ),
    default: 'eng,chi_sim',
    help: 'languages of the text in pictures; each one more makes reading slower',
  },
  /** An empty list switches content review off. */
  filters: {
    kind: pluginsWithFiles('filter', limits.filtersMax),
    default: [],
    help: 'plugins that review prompts and answers; a text passes if every filter allows it',
  },
  filterFailure: {
    kind: oneOf('closed', 'open'),
    default: 'closed',
    help: 'when a filter fails or is late: closed answers 503, open lets the text pass',
  },
  metricsKey: {
    kind: secret(),
    default: null,
    help: 'bearer key of /metrics; without one only this machine may read it',
  },
  adminKey: {
    kind: secret(limits.adminKeyLengthMin),
    default: null,
    help: 'bearer key of the admin API; without one the admin API is off',
  },
  logLevel: {
    kind: oneOf('info', 'warn', 'error', 'silent'),
    default: 'info',
    help: 'lowest level that is logged on standard error; info has a line for each request',
  },
} satisfies Fields;

export type SettingName = keyof typeof settings;
export type SettingValues = Values<typeof settings>;

export const settingNames = Object.keys(settings) as SettingName[];

/** Variables besides the settings: where the file is, and how errors are shown. */
export const otherVariables = {
  PREFACE_CONFIG: 'JSON file of settings, models, weights, limits and accounts',
  PREFACE_DEBUG: '1 prints the stack of an error',
} as const;

/** `PREFACE_DATA_DIR` for `dataDir`. */
export function variableOf(name: SettingName): string {
  return `PREFACE_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** `--data-dir` for `dataDir`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** The default of a setting, in words. */
export function defaultOf(name: SettingName): string {
  return defaultText(settings[name]);
}

/** The table of the documents; a test holds the two together. */
export function settingsMarkdown(): string {
  return tableMarkdown(
    ['environment', 'flag', 'key in the file', 'default', 'allowed', 'what it does'],
    settingNames.map((name) => {
      const { kind, help } = settings[name];
      const names = [variableOf(name), flagOf(name), name].map((each) => `\`${each}\``);
      return [...names, defaultOf(name), kind.allowed, help];
    }),
  );
}

function userFolder(machine: Machine, purpose: 'data' | 'cache'): string {
  const { env, homeDir, platform } = machine;
  const xdg = env[purpose === 'data' ? 'XDG_DATA_HOME' : 'XDG_CACHE_HOME'];
  // A relative path there is to be ignored, says the standard that defines these variables.
  if (xdg && isAbsolute(xdg)) return join(xdg, 'preface');
  const usual =
    platform === 'darwin'
      ? { data: 'Library/Application Support', cache: 'Library/Caches' }
      : { data: '.local/share', cache: '.cache' };
  return join(homeDir, usual[purpose], 'preface');
}
