/**
 * Owns the part of the engine contract for engines that ask other servers: their addresses, requests and answers.
 * It must stay free of imports, like the contract it belongs to.
 */

/** One server that speaks the chat completions of OpenAI. */
export interface UpstreamSpec {
  /** Base URL as SDKs take it: `http://10.0.0.7:8000/v1`, without a slash at its end. */
  readonly url: string;
  /** Bearer key for this server alone; null where it wants none. */
  readonly apiKey: string | null;
  /** The model's id there. */
  readonly model: string;
  /** What the server is, such as `vllm`; absent or null where its list of models tells. */
  readonly server?: string | null;
  /** Priority of requests that make or name a cache, for servers that take one; absent or null for none. */
  readonly cachePriority?: number | null;
}

export interface RemoteSpec {
  /** At least one; each is as good as another. */
  readonly upstreams: readonly UpstreamSpec[];
  readonly connectMs: number;
  /** From the request to the first byte of its answer. */
  readonly firstByteMs: number;
  /** Between two bytes of an answer. */
  readonly silenceMs: number;
  /** How often each upstream is asked whether it lives. */
  readonly healthMs: number;
}

/** Servers that know the vocabulary of a model. */
export interface RemoteVocabulary extends RemoteSpec {
  /** The chat template that counts; null for the servers' own. */
  readonly template: string | null;
}

export type ConversationPart =
  | { readonly type: 'text'; readonly text: string }
  /** A data URL, as the client sent it. */
  | { readonly type: 'image'; readonly url: string };

export interface ConversationMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  /** Of parts, the texts alone. */
  readonly content: string;
  /** Where there is an image; absent where the text is all. */
  readonly parts?: readonly ConversationPart[];
  readonly name: string | null;
  readonly toolCalls: readonly {
    readonly id: string;
    readonly name: string;
    /** JSON text. */
    readonly arguments: string;
  }[];
  readonly toolCallId: string | null;
}

export interface ConversationTool {
  readonly name: string;
  readonly description: string | null;
  readonly parameters: Readonly<Record<string, unknown>> | null;
  /** Absent: false. */
  readonly strict?: boolean;
}

/** What a prompt was rendered from. */
export interface Conversation {
  readonly messages: readonly ConversationMessage[];
  readonly tools: readonly ConversationTool[];
}

/** A conversation, and what is wanted of its answer beside the sampling. */
export interface ConversationRequest extends Conversation {
  /** The last message is the beginning of the answer. */
  readonly partial: boolean;
  /** The prefix of the task's snapshot is the first so many messages, and all tools. */
  readonly prefixMessages: number;
  readonly toolChoice:
    | { readonly type: 'auto' | 'none' | 'required' }
    | { readonly type: 'function'; readonly name: string };
  readonly parallelToolCalls: boolean;
  readonly responseFormat:
    | { readonly type: 'text' | 'json_object' }
    | {
        readonly type: 'json_schema';
        readonly name: string;
        readonly schema: Readonly<Record<string, unknown>>;
        readonly strict: boolean;
      };
  /** Variables of the server's template, beside messages and tools. */
  readonly templateArgs?: Readonly<Record<string, unknown>>;
  readonly reasoningEffort?: string;
  /** The reader looks for them too: an engine may leave them out. */
  readonly stop: readonly string[];
}

/** A prompt that no template renders. */
export interface RawRequest {
  /** null: the task's ids say all. */
  readonly text: string | null;
  /** The reader looks for them too: an engine may leave them out. */
  readonly stop: readonly string[];
  readonly responseFormat: ConversationRequest['responseFormat'];
}

export interface TextChance {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** The same of an engine without ids. */
export interface TextLogprob extends TextChance {
  readonly top: readonly TextChance[];
}

export type ConversationEvent =
  | {
      readonly type: 'text';
      readonly choice: number;
      readonly text: string;
      /** Generated tokens of this choice so far, as far as the engine knows. */
      readonly tokens: number;
      readonly logprobs: readonly TextLogprob[] | null;
    }
  /** What the model thinks before it answers. */
  | {
      readonly type: 'reasoning';
      readonly choice: number;
      readonly text: string;
      readonly tokens: number;
    }
  /** A piece of a tool call; the pieces of one call follow each other. */
  | {
      readonly type: 'call';
      readonly choice: number;
      /** Position of the call in the answer. */
      readonly index: number;
      /** With the first piece alone; then null. */
      readonly name: string | null;
      /** More of its JSON text. */
      readonly arguments: string;
    }
  /** Once at most, before the first `finished`: what a server that counts for itself has counted. */
  | {
      readonly type: 'usage';
      readonly promptTokens: number;
      /** Prompt tokens that were not evaluated for this task. */
      readonly reusedTokens: number;
      /** Of each choice. */
      readonly completionTokens: readonly number[];
    };
