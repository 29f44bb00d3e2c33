/**
 * Owns the one token count: from a rendered prompt to the ids that are counted, charged and evaluated.
 * It must never share remembered fragments between owners: a quick answer would reveal what another owner wrote.
 */
import { fromErrorValue } from '../errors.js';
import { loopTurns } from '../fairness/loop-turns.js';
import { limits } from '../limits/index.js';
import type { Tokenizer, TokenizerInfo } from '../plugin/contract.js';
import type { PromptSegment } from '../rules/prompt.js';
import { EncodeBatches, outOfTurn, type TokenizePool } from './encode-batches.js';
import type { PackedText, TokenizerRef } from './messages.js';
import { TokenMemory } from './token-memory.js';

export type { PromptSegment as Segment };

/** As a prompt is rendered; a long text may be packed. */
export type CountedSegment = PromptSegment | { readonly packed: PackedText };

type Ids = Uint32Array;

const NO_IDS: Ids = new Uint32Array(0);

/** A prompt's number of tokens, and its ids where they were wanted. */
export interface Counted {
  readonly tokens: number;
  readonly ids: Ids | null;
}

/** Ids by the keys of their fragments. */
type Answer = ReadonlyMap<string, Ids>;

const NO_ANSWER: Promise<Answer> = Promise.resolve(new Map());

/** A segment whose text is replaced by its ids, or by the key under which they will be stored. */
type Fragment =
  | Ids
  | string
  | Exclude<PromptSegment, { readonly text: string } | { readonly ids: Ids }>;

/** Opens a tokenizer in this thread; see `TokenizerPlugin.isQuick`. */
export type OpenHere = (tokenizer: TokenizerRef) => Promise<Tokenizer>;

export class TokenCounter {
  readonly #memory: TokenMemory;
  readonly #batches: EncodeBatches;
  /** Fragments that are being encoded: further requests for one wait for the same answer. */
  readonly #underway = new Map<string, Promise<Answer>>();
  /** A short number for each tokenizer, since the key of every fragment holds it. */
  readonly #tokenizers = new Map<string, number>();
  readonly #infos = new Map<string, Promise<TokenizerInfo>>();
  /** Quick ones, by their names. What they encode is not remembered: it would take longer to find. */
  readonly #here = new Map<string, Tokenizer>();

  constructor(
    readonly pool: TokenizePool,
    memoryBytesMax: number = limits.tokenMemoryBytesMax,
    /** Absent: every text goes to the pool. */
    readonly openHere: OpenHere | null = null,
  ) {
    this.#memory = new TokenMemory(memoryBytesMax);
    this.#batches = new EncodeBatches(pool);
  }

  /** Ids of the whole prompt; without a promise when every fragment is remembered. */
  encode(
    owner: string,
    tokenizer: TokenizerRef,
    segments: readonly CountedSegment[],
  ): Ids | Promise<Ids> {
    const { fragments, unknown } = this.#look(owner, tokenizer, segments);
    if (unknown.size === 0) return joined(fragments, () => undefined);
    return this.#completed(owner, tokenizer, fragments, unknown);
  }

  /**
   * As `encode`, but of a prompt with more tokens than `idsMax` only their number: nobody will evaluate it, and its ids
   * may take four times the memory of its text.
   */
  count(
    owner: string,
    tokenizer: TokenizerRef,
    segments: readonly CountedSegment[],
    idsMax: number,
  ): Counted | Promise<Counted> {
    const { fragments, unknown } = this.#look(owner, tokenizer, segments);
    if (unknown.size === 0) return countedIds(joined(fragments, () => undefined));
    let length = 0;
    for (const text of unknown.values()) length += text.length;
    return length <= idsMax
      ? this.#completed(owner, tokenizer, fragments, unknown).then(countedIds)
      : this.#countedLong(owner, tokenizer, fragments, unknown, idsMax);
  }

  async #countedLong(
    owner: string,
    tokenizer: TokenizerRef,
    fragments: readonly Fragment[],
    unknown: ReadonlyMap<string, string | PackedText>,
    idsMax: number,
  ): Promise<Counted> {
    const texts = [...unknown.values()];
    const { ids, lengths } = await this.#batches.encode(owner, tokenizer, texts, idsMax);
    const keys = [...unknown.keys()];
    if (ids === null) {
      const tokensOf = new Map(keys.map((key, at) => [key, lengths[at] ?? 0]));
      return { tokens: tokensIn(fragments, tokensOf), ids };
    }
    const answer = this.#remembered(keys, ids);
    return countedIds(joined(fragments, (key) => answer.get(key)));
  }

  /** Ids of each text. They are not remembered: many texts that come once would drive out those that come again. */
  async encodeOnce(
    owner: string,
    tokenizer: TokenizerRef,
    texts: readonly string[],
  ): Promise<readonly Ids[]> {
    return (await this.#batches.encode(owner, tokenizer, texts)).ids ?? [];
  }

  #look(owner: string, tokenizer: TokenizerRef, segments: readonly CountedSegment[]) {
    const scope = this.#scopeOf(owner, tokenizer);
    const unknown = new Map<string, string | PackedText>();
    const here = this.#here.get(nameOf(tokenizer));
    const fragments: Fragment[] = segments.map((segment) => {
      if ('ids' in segment) return segment.ids;
      const isPacked = 'packed' in segment;
      if (!isPacked && !('text' in segment)) return segment;
      if (!isPacked && here !== undefined && segment.text.length <= limits.encodeHereLengthMax)
        return here.encode(segment.text);
      const key = isPacked
        ? this.#memory.keyOfLong(scope, segment.packed.digest)
        : this.#memory.keyOf(scope, segment.text);
      const ids = this.#memory.get(key);
      if (ids === undefined) unknown.set(key, isPacked ? segment.packed : segment.text);
      return ids ?? key;
    });
    return { fragments, unknown };
  }

  info(tokenizer: TokenizerRef): Promise<TokenizerInfo> {
    const key = JSON.stringify([tokenizer.module, tokenizer.path]);
    const known = this.#infos.get(key);
    if (known !== undefined) return known;
    const asked = this.#askInfo(tokenizer);
    this.#infos.set(key, asked);
    asked.catch(() => this.#infos.delete(key));
    return asked;
  }

  /** The length of the owner's name keeps scopes apart, whatever the name contains. */
  #scopeOf(owner: string, tokenizer: TokenizerRef): string {
    const name = nameOf(tokenizer);
    const number = this.#tokenizers.get(name) ?? this.#tokenizers.size;
    this.#tokenizers.set(name, number);
    return `${number} ${owner.length} ${owner}`;
  }

  async #completed(
    owner: string,
    tokenizer: TokenizerRef,
    fragments: readonly Fragment[],
    unknown: ReadonlyMap<string, string | PackedText>,
  ): Promise<Ids> {
    this.#start(owner, tokenizer, unknown);
    // Usually one answer holds all of them.
    const awaited = new Set([...unknown.keys()].map((key) => this.#underway.get(key) ?? NO_ANSWER));
    const answers = await Promise.all(awaited);
    // Many requests may have waited for the same answer: they go on in turns.
    await loopTurns.next(owner);
    return joined(fragments, (key) => answers.find((answer) => answer.has(key))?.get(key));
  }

  /** Asks for all fragments that are not being encoded yet, in one order. */
  #start(
    owner: string,
    tokenizer: TokenizerRef,
    unknown: ReadonlyMap<string, string | PackedText>,
  ): void {
    const fresh = [...unknown].filter(([key]) => !this.#underway.has(key));
    if (fresh.length === 0) return;
    const answer = this.#ask(owner, tokenizer, fresh);
    for (const [key] of fresh) this.#underway.set(key, answer);
  }

  async #ask(
    owner: string,
    tokenizer: TokenizerRef,
    fresh: readonly (readonly [key: string, text: string | PackedText])[],
  ): Promise<Answer> {
    const texts = fresh.map(([, text]) => text);
    try {
      const { ids } = await this.#batches.encode(owner, tokenizer, texts);
      const keys = fresh.map(([key]) => key);
      return this.#remembered(keys, ids ?? []);
    } finally {
      for (const [key] of fresh) this.#underway.delete(key);
    }
  }

  #remembered(keys: readonly string[], ids: readonly Ids[]): Answer {
    const answer = new Map(keys.map((key, at) => [key, ids[at] ?? NO_IDS]));
    for (const [key, one] of answer) this.#memory.set(key, one);
    return answer;
  }

  async #askInfo(tokenizer: TokenizerRef): Promise<TokenizerInfo> {
    const result = await this.pool.run({ type: 'info', tokenizer });
    if (result.type === 'error') throw fromErrorValue(result.error);
    if (result.type !== 'info') throw outOfTurn(result);
    if (result.isQuick && this.openHere !== null)
      this.#here.set(nameOf(tokenizer), await this.openHere(tokenizer));
    return result.info;
  }
}

function nameOf({ module, path }: TokenizerRef): string {
  return path === null ? module : `${module}\0${path}`;
}

function countedIds(ids: Ids): Counted {
  return { tokens: ids.length, ids };
}

function joined(fragments: readonly Fragment[], awaited: (key: string) => Ids | undefined): Ids {
  const parts = fragments.map((part) =>
    typeof part === 'string' ? (awaited(part) ?? NO_IDS) : part,
  );
  const ids = new Uint32Array(parts.reduce((sum, part) => sum + lengthOf(part), 0));
  let at = 0;
  for (const part of parts) {
    if (part instanceof Uint32Array) ids.set(part, at);
    else if ('special' in part) ids[at] = part.special;
    else ids.fill(part.image, at, at + part.tokens);
    at += lengthOf(part);
  }
  return ids;
}

function tokensIn(fragments: readonly Fragment[], known: ReadonlyMap<string, number>): number {
  const tokensOf = (part: Fragment) =>
    typeof part === 'string' ? (known.get(part) ?? 0) : lengthOf(part);
  return fragments.reduce((sum, part) => sum + tokensOf(part), 0);
}

function lengthOf(part: Exclude<Fragment, string>): number {
  if (part instanceof Uint32Array) return part.length;
  return 'special' in part ? 1 : part.tokens;
}
