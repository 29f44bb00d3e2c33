/**
 * Owns a checked conversation while somebody has to read it: as objects where it is small, as packed bytes where it is not.
 * It must never bring a large one onto the main thread but for who needs its texts there.
 */
import { limits } from '../limits/index.js';
import type { FilterText } from '../plugin/contract.js';
import type { LargeImages } from '../pool/large-images.js';
import { freeBytes, ownBytes } from '../pool/memory.js';
import type { ChatRequest } from '../protocol/chat.js';
import type { PrefixMark } from '../protocol/prefix-mark.js';
import type { Sight } from '../rules/image-tokens.js';
import { type MarkedHashes, markedHashes, prefixAt } from '../rules/marked-prefix.js';
import {
  beginsWith,
  canonicalPrefix,
  missReason,
  type PrefixHash,
  type PrefixOwner,
  prefixChain,
} from '../rules/prefix.js';
import { inputTexts } from '../rules/review-texts.js';
import { packed, unpacked } from './packing.js';
import { decodeBody, encodeBody, type StoredBody } from './stored-body.js';
import { type TalkSource, talkSource } from './talk-source.js';
import type {
  PackedPrompt,
  PackedTalk,
  ParseAnswer,
  ParseAsk,
  ParseKind,
  TemplateRef,
  Threads,
} from './tasks.js';

/** Now, where nobody has to be waited for. */
type Soon<Value> = Value | Promise<Value>;

export interface RenderHow {
  /** Without what opens the answer. */
  readonly prefix: boolean;
  readonly sight: Sight;
}

/** A cache's identity and its stored messages and tools. */
export interface StoredPrefix extends PrefixOwner {
  readonly hash: PrefixHash;
  /** Read when a thread has a turn for it. */
  readonly stored: StoredBody;
}

export interface Talk {
  /** null where it is packed. */
  readonly near: TalkSource | null;
  /** The last message may go on: a prefix of it ends inside that message. */
  readonly open: boolean;
  /** What it takes in memory. */
  readonly heldBytes: number;
  /** Its images are apart, and marks stand for them in what is read of it. */
  readonly hasLargeImages: boolean;
  /** They are the caller's then, and nobody counts or compares it any more. null where it has none. */
  takeImages(): LargeImages | null;
  source(): Soon<TalkSource>;
  texts(): Soon<readonly FilterText[]>;
  /** Why it does not begin with a cache, in printable ASCII; null where it does. */
  difference(from: StoredPrefix): Soon<string | null>;
  /** Hashes of its prefixes, the shortest first. */
  chain(of: PrefixOwner): Soon<readonly PrefixHash[]>;
  /** Hashes of the prefixes that a request marks, and of those before the last of them. */
  marked(of: PrefixOwner, marks: readonly PrefixMark[]): Soon<MarkedHashes>;
  /** The same prefixes as bytes to store. */
  bodies(marks: readonly PrefixMark[]): Soon<readonly Uint8Array[]>;
  /** One prompt for each template. */
  render(templates: readonly TemplateRef[], how: RenderHow): Promise<readonly PackedPrompt[]>;
  /** Nobody will read it any more: what is large of it is given back now. */
  free(): void;
}

/** What is compared with a cache, as it came. */
export type WireTalk = Pick<ChatRequest, 'wireMessages' | 'wireTools'>;

export class NearTalk implements Talk {
  readonly hasLargeImages = false;

  constructor(
    readonly threads: Threads,
    readonly owner: string,
    readonly near: TalkSource,
    /** null where nobody will compare it. */
    readonly wire: WireTalk | null,
    readonly heldBytes: number,
  ) {}

  get open(): boolean {
    return this.near.partial;
  }

  source(): TalkSource {
    return this.near;
  }

  texts(): readonly FilterText[] {
    return inputTexts(this.near.messages, this.near.tools);
  }

  difference(from: StoredPrefix): Soon<string | null> {
    if (this.threads.isFar(from.stored.bytes)) return this.#far().difference(from);
    const texts = this.#canonical();
    const cached = decodeBody(from.stored.read());
    if (beginsWith(prefixChain(from, texts), texts, from.hash, cached)) return null;
    return missReason(texts, cached) ?? 'the prefix has another hash';
  }

  chain(of: PrefixOwner): readonly PrefixHash[] {
    return prefixChain(of, this.#canonical());
  }

  marked(of: PrefixOwner, marks: readonly PrefixMark[]): MarkedHashes {
    return markedHashes(of, this.#canonical(), marks, limits.breakpointLookBackMax);
  }

  bodies(marks: readonly PrefixMark[]): readonly Uint8Array[] {
    const canonical = this.#canonical();
    return marks.map((mark) => encodeBody(prefixAt(canonical, mark)));
  }

  render(templates: readonly TemplateRef[], how: RenderHow): Promise<readonly PackedPrompt[]> {
    return this.#far().render(templates, how);
  }

  takeImages(): null {
    return null;
  }

  free(): void {}

  #canonical() {
    const { wireMessages, wireTools } = this.wire ?? { wireMessages: [], wireTools: [] };
    return canonicalPrefix(wireMessages, wireTools);
  }

  #far(): FarTalk {
    const content = packed(talkSource(this.near));
    const talk = { content, canonical: packed(this.#canonical()) };
    return new FarTalk(this.threads, this.owner, talk, this.near.partial);
  }
}

export class FarTalk implements Talk {
  readonly near = null;
  readonly heldBytes: number;
  /** Moved to a thread for each question, and back with the answer: one at a time. */
  #talk: PackedTalk;

  constructor(
    readonly threads: Threads,
    readonly owner: string,
    talk: PackedTalk,
    readonly open = false,
  ) {
    this.#talk = talk;
    // The prompt that is made of it is about as large as its content.
    this.heldBytes =
      2 * talk.content.byteLength +
      (talk.canonical?.byteLength ?? 0) +
      (talk.images?.bytes.byteLength ?? 0);
  }

  get hasLargeImages(): boolean {
    return Boolean(this.#talk.images);
  }

  takeImages(): LargeImages | null {
    const { content, canonical, images } = this.#talk;
    this.#talk = { content, canonical };
    return images ?? null;
  }

  source(): TalkSource {
    return unpacked<TalkSource>(this.#talk.content);
  }

  async texts(): Promise<readonly FilterText[]> {
    const bytes = await this.#ask('texts', { talk: this.#talk });
    try {
      return unpacked(bytes);
    } finally {
      freeBytes(bytes);
    }
  }

  async difference({ owner, family, hash, stored }: StoredPrefix): Promise<string | null> {
    const from = { owner, family, hash };
    return await this.#ask('compare', () => ({
      talk: this.#talk,
      ...from,
      stored: ownBytes(stored.read()),
    }));
  }

  async chain({ owner, family }: PrefixOwner): Promise<readonly PrefixHash[]> {
    return await this.#ask('chain', { talk: this.#talk, owner, family });
  }

  async marked(
    { owner, family }: PrefixOwner,
    marks: readonly PrefixMark[],
  ): Promise<MarkedHashes> {
    return await this.#ask('marked', { talk: this.#talk, owner, family, marks });
  }

  async bodies(marks: readonly PrefixMark[]): Promise<readonly Uint8Array[]> {
    return await this.#ask('bodies', { talk: this.#talk, marks });
  }

  async render(
    templates: readonly TemplateRef[],
    how: RenderHow,
  ): Promise<readonly PackedPrompt[]> {
    return await this.#ask('render', { talk: this.#talk, templates, ...how });
  }

  free(): void {
    freeBytes(this.#talk.content);
    if (this.#talk.canonical !== null) freeBytes(this.#talk.canonical);
    if (this.#talk.images) freeBytes(this.#talk.images.bytes);
  }

  async #ask<Kind extends ParseKind>(
    kind: Kind,
    ask: ParseAsk<Kind> | (() => ParseAsk<Kind>),
  ): Promise<ParseAnswer<Kind>['answer']> {
    const { answer, talk } = await this.threads.run(this.owner, kind, ask);
    if (talk !== null) this.#talk = talk;
    return answer;
  }
}
