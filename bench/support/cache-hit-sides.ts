/**
 * Owns the measurements of one prefix: cold, hit, warm hit, after a restart, and the floors beside them.
 * It must never count a sample whose reuse differs from what its name says.
 */
import { FIRST_NUMBER, newQuestion, Prefix, type ReadyCache } from './caches.js';
import { type FirstContent, firstContent } from './first-content.js';
import type { Sample, Side } from './question.js';
import type { RawPrefixes } from './raw-prefixes.js';
import type { RestartedService } from './restarted-service.js';
import type { Server } from './servers.js';
import { spreadOf } from './stats.js';

export interface HitParts {
  readonly service: RestartedService;
  readonly raw: RawPrefixes;
  /** llama-server, where it is installed. */
  readonly other: Server | null;
  readonly folder: string;
  readonly lengths: readonly number[];
  /** Repetitions of short measurements per round; their median is the sample. */
  readonly times: number;
  /** Settings for the engine alone; the best one is the floor. */
  readonly threads: readonly number[];
}

interface Cached {
  readonly prefix: Prefix;
  /** A number that makes this prefix differ from its first token on. */
  readonly number: number;
  readonly cache: ReadyCache;
  /** The chat that evaluated the prefix first; the cache reused its evaluation. */
  readonly first: FirstContent;
  /** Tokens that a hit evaluates after its prefix was read from file, and after another hit, which begins with the same words. */
  readonly newTokens: { readonly file: number; readonly memory: number };
}

/** The opening words of the template, which every prompt begins with. */
const COLD_TOKENS_MAX = 16;
const ANSWER_TOKENS = 2;

export class HitSides {
  #colds = 0;
  /** Lengths whose first cold chat, with the cache's own prefix, is already reported. */
  readonly #told = new Set<number>();

  private constructor(
    readonly parts: HitParts,
    readonly cached: ReadonlyMap<number, Cached>,
  ) {}

  static async open(parts: HitParts): Promise<HitSides> {
    const { service, raw, folder, lengths } = parts;
    const threads = Math.max(...parts.threads);
    const cached = new Map<number, Cached>();
    for (const [at, length] of lengths.entries()) {
      cached.set(length, await openCached(service.server, length, FIRST_NUMBER + at));
    }
    const longest = cached.get(Math.max(...lengths))?.prefix.text(FIRST_NUMBER) ?? '';
    const all = [...cached.values()].map(({ cache }) => cache.tokens);
    // Twice, since the template's own tokens are not in the text.
    await raw.run({
      type: 'prepare',
      text: `${longest} ${longest}`,
      lengths: all,
      folder,
      threads,
    });
    return new HitSides(parts, cached);
  }

  of(length: number, coldRounds: number): Side[] {
    const side = (name: string, measure: () => Promise<Sample>, roundsMax?: number): Side => ({
      name: `${name}, ${length}`,
      measure,
      ...(roundsMax === undefined ? {} : { roundsMax }),
    });
    return [
      side('cold', () => this.#measureCold(length), coldRounds),
      side('hit', async () => this.#hitSample(length, [await this.#hit(length)])),
      side('warm hit', () => this.#measureWarm(length)),
      side('engine alone', () => this.#measureRaw(length, 'memory')),
      side('after restart', () => this.#measureRestart(length)),
      side('engine alone, from file', () => this.#measureRaw(length, 'file')),
      ...(this.parts.other === null
        ? []
        : [side('llama-server', () => this.#measureOther(this.parts.other as Server, length))]),
    ];
  }

  async #measureCold(length: number): Promise<Sample> {
    const { first } = this.#cached(length);
    const told = this.#told.has(length) ? await this.#cold(length) : first;
    this.#told.add(length);
    const isCold = told.cachedTokens <= COLD_TOKENS_MAX;
    return {
      value: told.ms,
      errors: isCold ? 0 : 1,
      check: `${told.promptTokens} tokens`,
      beside: { 'tokens found evaluated': told.cachedTokens },
    };
  }

  #cold(length: number): Promise<FirstContent> {
    this.#colds += 1;
    const { prefix } = this.#cached(length);
    return chat(this.parts.service.server, prefix, COLD_NUMBER + this.#colds);
  }

  #hit(length: number): Promise<FirstContent> {
    return hit(this.parts.service.server, this.#cached(length));
  }

  async #measureWarm(length: number): Promise<Sample> {
    await this.#hit(length);
    const told: FirstContent[] = [];
    while (told.length < this.parts.times) told.push(await this.#hit(length));
    return this.#hitSample(length, told);
  }

  async #measureRestart(length: number): Promise<Sample> {
    await this.parts.service.restart();
    return this.#hitSample(length, [await this.#hit(length)]);
  }

  /** The engine's count decides what a hit is, not the headers. */
  #hitSample(length: number, told: readonly FirstContent[]): Sample {
    const { tokens } = this.#cached(length).cache;
    const errors = told.filter(
      ({ cachedTokens, cache }) => cache !== 'hit' || cachedTokens < tokens,
    );
    const evaluated = told.map(({ promptTokens, cachedTokens }) => promptTokens - cachedTokens);
    return {
      value: spreadOf(told.map(({ ms }) => ms)).median,
      errors: errors.length,
      check: `${told[0]?.promptTokens} tokens, ${tokens} of them cached`,
      beside: { 'tokens evaluated': Math.max(...evaluated) },
    };
  }

  async #measureRaw(length: number, from: 'memory' | 'file'): Promise<Sample> {
    const { cache, newTokens } = this.#cached(length);
    const asked = {
      length: cache.tokens,
      newTokens: newTokens[from],
      from,
      times: this.parts.times,
    };
    const medians: number[] = [];
    for (const threads of this.parts.threads) {
      const { ms, prefixTokens } = await this.parts.raw.run({
        type: 'continue',
        ...asked,
        threads,
      });
      if (prefixTokens !== cache.tokens) throw new Error(`the engine alone has ${prefixTokens}`);
      medians.push(spreadOf(ms).median);
    }
    const check = `${newTokens[from]} tokens after ${cache.tokens}`;
    return { value: Math.min(...medians), errors: 0, check };
  }

  /** The first chat may be cold; the measured ones reuse what it evaluated. */
  async #measureOther(other: Server, length: number): Promise<Sample> {
    const { prefix, number, cache } = this.#cached(length);
    const ask = () => chat(other, prefix, number);
    await ask();
    const told: FirstContent[] = [];
    while (told.length < this.parts.times) told.push(await ask());
    return {
      value: spreadOf(told.map(({ ms }) => ms)).median,
      errors: told.filter(({ cachedTokens }) => cachedTokens < cache.tokens * 0.9).length,
      check: `${told[0]?.promptTokens} tokens`,
      beside: { 'tokens found evaluated': told[0]?.cachedTokens ?? 0 },
    };
  }

  #cached(length: number): Cached {
    const cached = this.cached.get(length);
    if (cached === undefined) throw new Error(`no cache of ${length} tokens was made`);
    return cached;
  }
}

/** The first number of prefixes that the service has never seen. */
const COLD_NUMBER = 500_000;

/** A cold chat before the cache is made, which then reuses its evaluation. */
async function openCached(server: Server, length: number, number: number): Promise<Cached> {
  const prefix = await Prefix.ofTokens(server, length);
  const first = await chat(server, prefix, number);
  const named = { prefix, number, cache: await prefix.cache(server, number) };
  const { promptTokens } = await hit(server, named);
  const { cachedTokens } = await hit(server, named);
  const newTokens = {
    file: promptTokens - named.cache.tokens,
    memory: promptTokens - cachedTokens,
  };
  return { ...named, first, newTokens };
}

type Named = Pick<Cached, 'prefix' | 'number' | 'cache'>;

function hit(server: Server, { prefix, number, cache }: Named): Promise<FirstContent> {
  return chat(server, prefix, number, cache.id);
}

function chat(
  { port }: Server,
  prefix: Prefix,
  number: number,
  cache?: string,
): Promise<FirstContent> {
  const body = prefix.chat(number, newQuestion(), ANSWER_TOKENS);
  return firstContent({ port, body, ...(cache === undefined ? {} : { cache }) });
}
