/**
 * Owns the contracts between the core and its plugins: plain data in, plain data out.
 * It must import nothing but its own part, so that a plugin needs nothing of the core but these types.
 */
import type {
  Conversation,
  ConversationEvent,
  ConversationRequest,
  RemoteSpec,
  RemoteVocabulary,
} from './contract/conversation.js';
import type { Extractor, ExtractorOptions } from './contract/extractor.js';
import type { Plugin } from './contract/plugin.js';

export type * from './contract/conversation.js';
export type * from './contract/extractor.js';
export * from './contract/plugin.js';

// ---------------------------------------------------------------- tokenizer

export interface TokenizerOptions {
  /** Where the vocabulary is: a GGUF file, a `.tiktoken` ranks file, or null if the plugin brings its own. */
  readonly path: string | null;
  /** For a tokenizer that asks the model's own servers; then `path` is a name for them. */
  readonly remote?: RemoteVocabulary;
}

/** Every token's bytes, end to end: token `i` is `bytes[offsets[i] .. offsets[i + 1]]`. */
export interface Vocabulary {
  readonly bytes: Uint8Array;
  /** Length: number of tokens + 1. A special token has no bytes. */
  readonly offsets: Uint32Array;
}

export interface TokenizerInfo {
  /** Changes when the ids of any text would change. */
  readonly fingerprint: string;
  /** Text of each special token → its id. They are produced by templates only, never by user text. */
  readonly special: Readonly<Record<string, number>>;
  /** Ids that end a turn; the engine stops there and they are not shown. */
  readonly endIds: readonly number[];
  /** Jinja chat template of the model, as published with it. */
  readonly template: string;
  /** The texts a template may ask for as `bos_token` and `eos_token`. */
  readonly bosToken: string;
  readonly eosToken: string;
  /** The model wants its first id to be `bosToken` where the template does not write it. */
  readonly addBos: boolean;
  readonly vocabulary: Vocabulary;
}

export interface Tokenizer {
  info(): TokenizerInfo;
  /**
   * Ids of plain text. Text that looks like a special token stays text.
   * Work is bounded: at most O(n log n) in the length, whatever the text.
   */
  encode(text: string): Uint32Array;
  /** The same ids, with pauses after bounded work: other texts may be encoded in between. Without it, at once. */
  encodeInSteps?(text: string): Generator<void, Uint32Array>;
  /** In place of `encode`, of a tokenizer that must ask somebody. */
  encodeLater?(text: string): Promise<Uint32Array>;
  close(): void;
}

export type TokenizerPlugin = Plugin<'tokenizer', TokenizerOptions, Tokenizer>;

// ------------------------------------------------------------------- engine

export interface EngineModelSpec {
  /** Name by which tasks ask for it. Specs with the same weights share them in memory. */
  readonly id: string;
  /** Weights file, or null for an engine that needs none. */
  readonly weights: string | null;
  /** Tokens of prompt and answer together. Beyond the trained window the engine scales RoPE. */
  readonly window: number;
  /** Servers that run the model, for an engine that asks others. */
  readonly remote?: RemoteSpec;
}

export interface EngineOptions {
  readonly models: readonly EngineModelSpec[];
  /** A reused prefix gives the very tokens of a cold run. False trades that promise for speed. */
  readonly exact: boolean;
  /** Threads of a lone stream and of a batch, or null to measure at first start. */
  readonly threads: { readonly single: number; readonly batch: number } | null;
  /** Sequences a model may run at the same time. */
  readonly slots: number;
  /** Bytes all contexts together may take. A model that cannot fit is not offered. */
  readonly memoryBytesMax: number;
  /** Bytes of disk that kept prefixes may take. */
  readonly snapshotBytesMax: number;
  /** Private folder for what the engine wants to keep between starts. */
  readonly stateDir: string;
}

export interface EngineModel {
  readonly id: string;
  readonly window: number;
  /** Weights, context settings and engine build: a snapshot is only good under the same one. */
  readonly fingerprint: string;
  /** Generations that run at the same time: the service gives it no more, others wait there for their turn. */
  readonly slots: number;
  readonly logprobs: boolean;
  /**
   * Whether a reused prefix gives the bits of a cold run: `proved` by a comparison on this machine, `not held` where it
   * failed, `off` where the settings prefer speed. Absent: the engine says nothing of it.
   */
  readonly exact?: 'proved' | 'not held' | 'off';
  /** False for models that count images but cannot look at them. */
  readonly vision: boolean;
  /**
   * True for an engine that hands the messages on, to a server with a template, tool calls and JSON of its own: its tasks
   * carry a `conversation`, and it answers with `text` and `call` in place of `piece`.
   */
  readonly conversation?: boolean;
}

/** A model of the settings that the engine does not offer. */
export interface RefusedModel {
  readonly id: string;
  /** A sentence's second half, for the operator: what the model is or lacks. */
  readonly reason: string;
}

export interface Sampling {
  /** 0…1; 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** −2…2, on the tokens this choice has generated so far, linearly, as OpenAI documents them. */
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** With a seed, seed and choice index decide; null lets choices differ freely. */
  readonly seed: number | null;
}

/** JSON the output must follow. The output ends where the JSON closes. */
export interface Constraint {
  /** JSON text of a schema, checked at the edge for depth, size and keywords; null: any JSON object. */
  readonly schema: string | null;
  /**
   * null: from the first token. Otherwise the output is free until it contains this text,
   * and what follows the text is constrained.
   */
  readonly trigger: string | null;
}

/** A prefix whose evaluated state the engine keeps under a name, in memory and on disk. */
export interface SnapshotRef {
  /** `[a-z0-9]{1,64}`; the same name always means the same owner and the same ids. */
  readonly name: string;
  /** The first so many ids of the prompt. */
  readonly tokens: number;
}

export interface PrefillTask {
  readonly model: string;
  readonly owner: string;
  /** Ids of the prefix, no more. */
  readonly prompt: Uint32Array;
  /** Name to keep it under, as in `SnapshotRef`. */
  readonly snapshot: string;
  /** For a model that wants it: what the prefix was rendered from. */
  readonly conversation?: Conversation;
}

export interface SnapshotInfo {
  readonly tokens: number;
  /** On disk. */
  readonly bytes: number;
  /** Tokens evaluated for it now: 0 when an intact snapshot was there. */
  readonly evaluatedTokens: number;
}

export interface GenerateTask {
  readonly model: string;
  /** Prefixes are reused within one owner only. */
  readonly owner: string;
  /** Ids of the whole prompt, as counted. */
  readonly prompt: Uint32Array;
  /**
   * The prompt begins with this prefix. Reused where the engine holds it; where it does not, for this model or
   * any more, it is made on the way.
   */
  readonly snapshot: SnapshotRef | null;
  /** Per choice. At least 1. */
  readonly maxTokens: number;
  /** 1…5, evaluated as one batch after a shared prefill. */
  readonly choices: number;
  readonly endIds: readonly number[];
  readonly sampling: Sampling;
  readonly constraint: Constraint | null;
  /** Number of alternatives with each token's log-probability; null for none at all. */
  readonly logprobs: number | null;
  /** For a model that wants it. There is no `constraint` then. */
  readonly conversation?: ConversationRequest;
}

export interface TokenLogprob {
  readonly id: number;
  /** Natural logarithm. */
  readonly logprob: number;
  readonly top: readonly { readonly id: number; readonly logprob: number }[];
}

export type EngineEvent =
  /** Once, first: after a reused prefix is loaded, before the rest is evaluated. */
  | { readonly type: 'started'; readonly reusedTokens: number }
  /** In place of `piece`, from an engine of conversations. */
  | ConversationEvent
  | {
      readonly type: 'piece';
      readonly choice: number;
      /** Generated ids in order, without the end id. */
      readonly ids: readonly number[];
      /** One per id when the task asked for them. */
      readonly logprobs: readonly TokenLogprob[] | null;
    }
  /** The only event of a prefill. */
  | { readonly type: 'prefilled'; readonly snapshot: SnapshotInfo }
  /** The only event of a question whether a prefix is held. */
  | { readonly type: 'held'; readonly held: boolean }
  /** Once per choice. `length`: `maxTokens` reached. `stop`: an end id or the constraint's end. */
  | {
      readonly type: 'finished';
      readonly choice: number;
      readonly reason: 'stop' | 'length';
    };

export interface GenerateControl {
  /** Aborted when nobody wants the rest: the engine frees the slots within one token. */
  readonly signal: AbortSignal;
  /** The signal's, for those who look and do not listen: a signal is made when it is asked for, and costs a short answer half. */
  readonly aborted: boolean;
  /** True once this choice alone is not wanted any more. Looked at before each of its tokens. */
  cancelled(choice: number): boolean;
}

export interface Engine {
  models(): readonly EngineModel[];
  /** The others of the settings, each with its reason. Without it, none was refused. */
  refused?(): readonly RefusedModel[];
  /**
   * Pull is the back-pressure: a generation whose events are not taken pauses alone.
   * @throws Error with a `code` of `overloaded` when there is no room to queue, `unavailable` when the server it asks does not
   *   answer, `refused` when the request is at fault; `retryAfterMs` says when to come back where that is known.
   */
  generate(task: GenerateTask, control: GenerateControl): AsyncIterable<EngineEvent>;
  /**
   * Resolves once the next `generate` would reuse the prefix, also after a restart. An intact snapshot of the same
   * weights, settings and build is enough. Yields to running generations; `signal` ends it within one chunk.
   * @throws Error with a `code` of `overloaded`, `no_space` or `unavailable`.
   */
  prefill(task: PrefillTask, signal: AbortSignal): Promise<SnapshotInfo>;
  /**
   * Whether a `generate` that begins now would reuse the prefix for this model, without doing anything for it. Absent
   * where nobody can say: then a prefix that was prefilled once counts as held.
   */
  holds?(task: PrefillTask): Promise<boolean>;
  /** Frees memory and disk of a snapshot, for every model. Unknown names are fine. */
  forget(snapshot: string): Promise<void>;
  /**
   * What the first task would wait for. A start of the service waits for it; an engine that takes the place of one that
   * died serves meanwhile.
   */
  warm?(): Promise<void>;
  close(): Promise<void>;
}

export interface EnginePlugin extends Plugin<'engine', EngineOptions, Engine> {
  /**
   * Done in a process that stands by until the one at work dies: what `open` needs long for and little memory, so no
   * weights. What fails here is met again, and told, by `open`.
   */
  prepare?(): Promise<void>;
}

// ---------------------------------------------------------------- extractor

export type ExtractorPlugin = Plugin<'extractor', ExtractorOptions, Extractor>;

// Filters review what users send and what models say.
export type * from './contract/filter.js';
