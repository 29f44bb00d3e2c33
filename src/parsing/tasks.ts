/**
 * Owns what crosses to a parsing thread and back: tasks, answers, and the forms that large conversations cross in.
 * It must hold data alone, and only in forms that cost the receiving thread next to nothing.
 */
import type { ErrorValue } from '../errors.js';
import type { PackedText } from '../pool/messages.js';
import type { CacheOptions } from '../protocol/cache-options.js';
import type { CacheFacts, CacheUpdate } from '../protocol/caching.js';
import type { ChatSettings } from '../protocol/chat.js';
import type { TagBind } from '../protocol/tags.js';
import type { TemplateSource } from '../rules/chat-template.js';
import type { PrefixHash } from '../rules/prefix.js';
import type { FloorParts } from '../rules/token-floor.js';

/** Bytes alone in their memory, which can be moved to another thread. */
export type OwnBytes = Uint8Array<ArrayBuffer>;

/** A checked conversation. */
export interface PackedTalk {
  /** Serialised `TalkSource`. */
  readonly content: OwnBytes;
  /** Serialised `CanonicalPrefix`; null where nobody will compare it. */
  readonly canonical: OwnBytes | null;
}

/** A template as a thread builds it, once for each key. */
export interface TemplateRef {
  readonly key: string;
  readonly source: TemplateSource;
  readonly floor: FloorParts;
}

/** As `PromptSegment`; a long text crosses as bytes. */
export type PackedSegment =
  | { readonly special: number }
  | { readonly text: string }
  | { readonly packed: PackedText }
  | { readonly image: number; readonly tokens: number };

export interface PackedPrompt {
  readonly segments: readonly PackedSegment[];
  /** It has so many tokens at least. */
  readonly tokensMin: number;
}

export type ParsedChat =
  | { readonly type: 'plain'; readonly settings: ChatSettings; readonly talk: PackedTalk }
  /** Begins with a cache; the fault of its options is told after the model is known. */
  | {
      readonly type: 'cached';
      readonly model: string;
      readonly options: CacheOptions | { readonly fault: ErrorValue };
      /** It came with the question, and is read again with the cache. */
      readonly body: OwnBytes;
    };

/** Each kind of work: what is asked, and what is answered. */
export interface ParseWork {
  chat: { ask: { body: OwnBytes; compares: boolean }; answer: ParsedChat };
  /** A chat with the messages of a stored cache in the place of its first message. */
  join: {
    ask: { body: OwnBytes; stored: OwnBytes };
    answer: { settings: ChatSettings; talk: PackedTalk };
  };
  estimate: { ask: { body: OwnBytes }; answer: { model: string; talk: PackedTalk } };
  create: {
    ask: { body: OwnBytes; owner: string };
    /** With the bytes to store. */
    answer: { facts: CacheFacts; talk: PackedTalk; stored: OwnBytes; hash: PrefixHash };
  };
  update: { ask: { body: OwnBytes }; answer: CacheUpdate };
  tag: { ask: { body: OwnBytes }; answer: TagBind };
  /** The conversation of a stored cache, and how many messages it has. */
  open: { ask: { stored: OwnBytes }; answer: { talk: PackedTalk; messages: number } };
  /** A conversation that the main thread holds, in packed form. */
  render: {
    ask: { talk: PackedTalk; templates: readonly TemplateRef[]; prefix: boolean; images: boolean };
    answer: readonly PackedPrompt[];
  };
  /** Why a conversation does not begin with a stored cache; null where it does. */
  compare: {
    ask: { talk: PackedTalk; stored: OwnBytes; owner: string; family: string; hash: PrefixHash };
    answer: string | null;
  };
  chain: { ask: { talk: PackedTalk; owner: string; family: string }; answer: PrefixHash[] };
  /** Serialised `FilterText[]`. */
  texts: { ask: { talk: PackedTalk }; answer: OwnBytes };
  /** A reply of stored caches: each behind its head, which lacks only the closing brace. */
  show: {
    ask: { caches: readonly { head: string; stored: OwnBytes }[]; isList: boolean };
    answer: OwnBytes;
  };
}

export type ParseKind = keyof ParseWork;

/** Runs one task in a thread, when it is its owner's turn. */
export interface Threads {
  /** Whether a body of so many bytes is too large for the main thread. */
  isFar(bytes: number): boolean;
  /** @throws ApiError that the thread answered with. */
  run<Kind extends ParseKind>(
    owner: string,
    kind: Kind,
    ask: ParseWork[Kind]['ask'],
  ): Promise<ParseAnswer<Kind>>;
}

export interface ParseAnswer<Kind extends ParseKind = ParseKind> {
  readonly answer: ParseWork[Kind]['answer'];
  /** The conversation that went with the question: its memory was moved, and comes back. */
  readonly talk: PackedTalk | null;
}

export type ParseTask = {
  [Kind in ParseKind]: { readonly kind: Kind; readonly ask: ParseWork[Kind]['ask'] };
}[ParseKind];

export type ParseResult =
  | ({ readonly type: 'done' } & ParseAnswer)
  | { readonly type: 'error'; readonly error: ErrorValue };
