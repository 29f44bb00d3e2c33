/**
 * Owns the settings: where each may come from, its default, and the check that names it when it is wrong.
 * It must never touch the network, the store or a plugin.
 */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { readTables, tableNames } from './file.js';
import { thisMachine } from './machine.js';
import { type Json, Place, unknownSetting } from './place.js';
import {
  type ExtractionSettings,
  type NamedSetting,
  type PluginFinder,
  pluginFinder,
  type ReviewSettings,
  settingOf,
} from './plugins.js';
import {
  flagOf,
  type Machine,
  otherVariables,
  type Setting,
  type SettingName,
  type SettingValues,
  settingNames,
  settings,
} from './table.js';
import type {
  ApiKeySetting,
  Config,
  EngineSettings,
  LimitSettings,
  ModelConfig,
  WeightsConfig,
} from './types.js';

export type { ApiKeySetting, Config, EngineSettings, LimitSettings, ModelConfig, WeightsConfig };

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
