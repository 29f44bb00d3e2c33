/**
 * Owns a checked conversation while somebody has to read it: as objects where it is small, as packed bytes where it is not.
 * It must never bring a large one onto the main thread but for who needs its texts there.
 */
import type { FilterText } from '../plugin/contract.js';
import type { ChatRequest } from '../protocol/chat.js';
import {
  beginsWith,
  canonicalPrefix,
  missReason,
  type PrefixHash,
  type PrefixOwner,
  prefixChain,
} from '../rules/prefix.js';
import { inputTexts } from '../rules/review-texts.js';
import { ownBytes, packed, unpacked } from './packing.js';
import { decodeBody } from './stored-body.js';
import type { TalkSource } from './talk-source.js';
import type {
  PackedPrompt,
  PackedTalk,
  ParseKind,
  ParseWork,
  TemplateRef,
  Threads,
} from './tasks.js';

/** Now, where nobody has to be waited for. */
type Soon<Value> = Value | Promise<Value>;

export interface RenderHow {
  /** Without what opens the answer. */
  readonly prefix: boolean;
  /** Images count by their pixels; else they are refused. */
  readonly images: boolean;
}

/** A cache's identity and its stored messages and tools. */
export interface StoredPrefix extends PrefixOwner {
  readonly hash: PrefixHash;
  readonly stored: Uint8Array;
}

export interface Talk {
  /** null where it is packed. */
  readonly near: TalkSource | null;
  /** What it takes in memory. */
  readonly heldBytes: number;
  source(): Soon<TalkSource>;
  texts(): Soon<readonly FilterText[]>;
  /** Why it does not begin with a cache, in printable ASCII; null where it does. */
  difference(from: StoredPrefix): Soon<string | null>;
  /** Hashes of its prefixes, the shortest first. */
  chain(of: PrefixOwner): Soon<readonly PrefixHash[]>;
  /** One prompt for each template. */
  render(templates: readonly TemplateRef[], how: RenderHow): Promise<readonly PackedPrompt[]>;
}

/** What is compared with a cache, as it came. */
export type WireTalk = Pick<ChatRequest, 'wireMessages' | 'wireTools'>;

export class NearTalk implements Talk {
  constructor(
    readonly threads: Threads,
    readonly owner: string,
    readonly near: TalkSource,
    /** null where nobody will compare it. */
    readonly wire: WireTalk | null,
    readonly heldBytes: number,
  ) {}

  source(): TalkSource {
    return this.near;
  }

  texts(): readonly FilterText[] {
    return inputTexts(this.near.messages, this.near.tools);
  }

  difference(from: StoredPrefix): Soon<string | null> {
    if (this.threads.isFar(from.stored.byteLength)) return this.#far().difference(from);
    const texts = this.#canonical();
    const cached = decodeBody(from.stored);
    if (beginsWith(prefixChain(from, texts), texts, from.hash, cached)) return null;
    return missReason(texts, cached) ?? 'the prefix has another hash';
  }

  chain(of: PrefixOwner): readonly PrefixHash[] {
    return prefixChain(of, this.#canonical());
  }

  render(templates: readonly TemplateRef[], how: RenderHow): Promise<readonly PackedPrompt[]> {
    return this.#far().render(templates, how);
  }

  #canonical() {
    const { wireMessages, wireTools } = this.wire ?? { wireMessages: [], wireTools: [] };
    return canonicalPrefix(wireMessages, wireTools);
  }

  #far(): FarTalk {
    const { messages, tools, partial } = this.near;
    const content = packed({ messages, tools, partial } satisfies TalkSource);
    return new FarTalk(this.threads, this.owner, { content, canonical: packed(this.#canonical()) });
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
  ) {
    this.#talk = talk;
    this.heldBytes = talk.content.byteLength + (talk.canonical?.byteLength ?? 0);
  }

  source(): TalkSource {
    return unpacked<TalkSource>(this.#talk.content);
  }

  async texts(): Promise<readonly FilterText[]> {
    return unpacked(await this.#ask('texts', { talk: this.#talk }));
  }

  async difference({ owner, family, hash, stored }: StoredPrefix): Promise<string | null> {
    const ask = { talk: this.#talk, owner, family, hash, stored: ownBytes(stored) };
    return await this.#ask('compare', ask);
  }

  async chain({ owner, family }: PrefixOwner): Promise<readonly PrefixHash[]> {
    return await this.#ask('chain', { talk: this.#talk, owner, family });
  }

  async render(
    templates: readonly TemplateRef[],
    how: RenderHow,
  ): Promise<readonly PackedPrompt[]> {
    return await this.#ask('render', { talk: this.#talk, templates, ...how });
  }

  async #ask<Kind extends ParseKind>(
    kind: Kind,
    ask: ParseWork[Kind]['ask'],
  ): Promise<ParseWork[Kind]['answer']> {
    const { answer, talk } = await this.threads.run(this.owner, kind, ask);
    if (talk !== null) this.#talk = talk;
    return answer;
  }
}
