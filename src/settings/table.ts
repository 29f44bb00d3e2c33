/**
 * Owns the one table of settings: name, default, bounds and help, from which flags, checks, `--help` and the README come.
 * It must never read a file, the environment or the clock; what the machine is like is handed in.
 */
import { isAbsolute, join } from 'node:path';
import { limits } from '../limits/index.js';
import {
  byteCount,
  flag,
  GIB,
  integer,
  type Kind,
  keyList,
  MIB,
  nameList,
  oneOf,
  originList,
  type PluginEntry,
  path,
  pattern,
  pluginList,
  secret,
  threadPair,
} from './kinds.js';

/** What a default may depend on. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly homeDir: string;
  readonly memoryBytes: number;
  readonly cores: number;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface Setting<Value> {
  readonly env: `PREFACE_${string}`;
  readonly kind: Kind<Value>;
  readonly fallback: (machine: Machine) => Value;
  /** The default in words, where it depends on the machine. */
  readonly fallbackText: string;
  readonly help: string;
}

export const settings = {
  host: setting({
    env: 'PREFACE_HOST',
    kind: pattern(/^[\w.:-]{1,253}$/, 'a host name or an IP address'),
    fallback: () => '127.0.0.1',
    fallbackText: '127.0.0.1',
    help: 'address to listen on; 0.0.0.0 opens the service to the network',
  }),
  port: setting({
    env: 'PREFACE_PORT',
    kind: integer(0, 65_535),
    fallback: () => 8080,
    fallbackText: '8080',
    help: 'port to listen on; 0 takes any free one',
  }),
  dataDir: setting({
    env: 'PREFACE_DATA_DIR',
    kind: path(),
    fallback: (machine) => userFolder(machine, 'data'),
    fallbackText: '~/.local/share/preface',
    help: 'folder of the database, one running service each',
  }),
  modelsDir: setting({
    env: 'PREFACE_MODELS_DIR',
    kind: path(),
    fallback: (machine) => join(userFolder(machine, 'cache'), 'models'),
    fallbackText: '~/.cache/preface/models',
    help: 'folder of the weights, shared by every copy of preface',
  }),
  apiKeys: setting({
    env: 'PREFACE_API_KEYS',
    kind: keyList(),
    fallback: () => [],
    fallbackText: 'none',
    help: 'keys beside the stored ones; a flag can be seen by all users of the machine',
  }),
  engine: setting({
    env: 'PREFACE_ENGINE',
    kind: pattern(/^[^\s,]{1,1024}$/, 'llama, echo, or a plugin: a path or a package name'),
    fallback: () => 'llama',
    fallbackText: 'llama',
    help: 'engine of the models that name none; echo needs no weights',
  }),
  exact: setting({
    env: 'PREFACE_EXACT',
    kind: flag(),
    fallback: () => true,
    fallbackText: 'true',
    help: 'a reused prefix gives the very answer of a cold run; false is faster',
  }),
  threads: setting({
    env: 'PREFACE_THREADS',
    kind: threadPair(),
    fallback: () => null,
    fallbackText: 'auto',
    help: 'engine threads of a lone stream and of a batch; auto measures once',
  }),
  slots: setting({
    env: 'PREFACE_SLOTS',
    kind: integer(1, 64),
    fallback: () => 4,
    fallbackText: '4',
    help: 'chats that one model runs at the same time',
  }),
  memory: setting({
    env: 'PREFACE_MEMORY',
    kind: byteCount(64 * MIB, 64 * 1024 * GIB),
    fallback: (machine) => Math.floor(machine.memoryBytes / 2),
    fallbackText: 'half of the memory',
    help: 'memory for the contexts of all models; what cannot fit is not offered',
  }),
  snapshotDisk: setting({
    env: 'PREFACE_SNAPSHOT_DISK',
    kind: byteCount(64 * MIB, 64 * 1024 * GIB),
    fallback: () => 8 * GIB,
    fallbackText: '8GiB',
    help: 'disk for the prefilled prefixes of caches; the longest unused make room, also where the disk is full',
  }),
  corsOrigins: setting({
    env: 'PREFACE_CORS_ORIGINS',
    kind: originList(),
    fallback: () => [],
    fallbackText: 'none',
    help: 'origins that browsers may call from',
  }),
  tokenizeThreads: setting({
    env: 'PREFACE_TOKENIZE_THREADS',
    kind: integer(1, 64),
    fallback: (machine) => Math.max(1, Math.min(4, machine.cores >> 1)),
    fallbackText: 'half of the cores, at most 4',
    help: 'threads that count tokens',
  }),
  extractors: setting<readonly string[] | null>({
    env: 'PREFACE_EXTRACTORS',
    kind: nameList(
      /^[^\s,]{1,1024}$/,
      'names with commas, like text,html, or plugins: paths or packages',
    ),
    fallback: () => null,
    fallbackText: 'all built-in ones',
    help: 'what reads uploaded documents; where two claim one with equal right, the first',
  }),
  extractProcesses: setting({
    env: 'PREFACE_EXTRACT_PROCESSES',
    kind: integer(1, 64),
    fallback: (machine) => Math.max(1, Math.min(4, machine.cores)),
    fallbackText: 'the cores, at most 4',
    help: 'processes that read documents, one document each at a time',
  }),
  ocrLanguages: setting<readonly string[]>({
    env: 'PREFACE_OCR_LANGUAGES',
    kind: nameList(
      /^[a-z]{3}(_[a-z]{2,8}){0,2}$/,
      "languages with commas by the names of tesseract's data, like eng,chi_sim",
    ),
    fallback: () => ['eng', 'chi_sim'],
    fallbackText: 'eng,chi_sim',
    help: 'languages that are looked for in pictures; each one makes reading them slower',
  }),
  filters: setting<readonly PluginEntry[]>({
    env: 'PREFACE_FILTERS',
    kind: pluginList(limits.filtersMax),
    fallback: () => [],
    fallbackText: 'none',
    help: 'what reviews prompts and answers; each filter must allow a text',
  }),
  filterFailure: setting<'closed' | 'open'>({
    env: 'PREFACE_FILTER_FAILURE',
    kind: oneOf('closed', 'open'),
    fallback: () => 'closed',
    fallbackText: 'closed',
    help: 'what a filter that fails or is late means: closed is a 503, open lets the text pass',
  }),
  metricsKey: setting({
    env: 'PREFACE_METRICS_KEY',
    kind: secret(),
    fallback: () => null,
    fallbackText: 'none',
    help: 'bearer key of /metrics; without one only this machine may read it',
  }),
  adminKey: setting({
    env: 'PREFACE_ADMIN_KEY',
    kind: secret(limits.adminKeyLengthMin),
    fallback: () => null,
    fallbackText: 'none',
    help: 'bearer key of the admin API; without one there is none',
  }),
  logLevel: setting({
    env: 'PREFACE_LOG_LEVEL',
    kind: pattern(/^(info|warn|error|silent)$/, 'info, warn, error or silent'),
    fallback: () => 'info',
    fallbackText: 'info',
    help: 'what is logged on standard error; info has a line for each request',
  }),
} as const;

export type SettingName = keyof typeof settings;
export type SettingValues = {
  -readonly [Name in SettingName]: (typeof settings)[Name] extends Setting<infer Value>
    ? Value
    : never;
};

export const settingNames = Object.keys(settings) as SettingName[];

/** The variables that are no settings of the service: where the file is, and how errors are shown. */
export const otherVariables = {
  PREFACE_CONFIG: 'JSON file of settings, models, weights and limits (also --config)',
  PREFACE_DEBUG: '1 prints the stack of an error',
} as const;

/** `PREFACE_DATA_DIR` is `--data-dir`. */
export function flagOf(env: string): string {
  return `--${env.slice('PREFACE_'.length).toLowerCase().replaceAll('_', '-')}`;
}

/** The README's table; a test holds the two together. */
export function settingsMarkdown(): string {
  const rows = settingNames.map((name) => {
    const { env, fallbackText, kind, help } = settings[name];
    return `| \`${env}\` | \`${flagOf(env)}\` | \`${name}\` | ${fallbackText} | ${kind.allowed} | ${help} |`;
  });
  return [
    '| environment | flag | key in the file | default | allowed | what it does |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

function setting<Value>(row: Setting<Value>): Setting<Value> {
  return row;
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
