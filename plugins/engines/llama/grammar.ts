/**
 * Owns parsed grammars and how far an output has come in one: which tokens may follow, and the turns this takes.
 * It must never free what a call still reads, nor hold the decode loop with a call that may take long.
 */
import { limits } from 'preface/plugin';
import { Candidates } from './candidates.js';
import { later, library, type Pointer } from './libllama.js';
import { Turns } from './turns.js';

/** One piece at a time: the library's decode calls need the same few threads of the pool. */
const turns = new Turns();

/** Resolves when no grammar is at work, so that a vocabulary can be freed. */
export function grammarsIdle(): Promise<void> {
  return turns.idle();
}

export interface GrammarSource {
  /** Alternatives that one token may have to be tried against. */
  readonly width: number;
  readonly owner: string;
}

/** A parsed grammar, for one vocabulary; every choice starts from a copy of it. */
export class Grammar {
  private constructor(
    private readonly fresh: Pointer,
    readonly vocabularySize: number,
    readonly source: GrammarSource,
  ) {}

  /** @throws Error when the text does not parse. */
  static async parse(
    text: string,
    vocabulary: { readonly address: Pointer; readonly size: number },
    source: GrammarSource,
  ): Promise<Grammar> {
    const { samplerGrammar } = library();
    const parse = () => later(samplerGrammar, vocabulary.address, text, 'root');
    const fresh = await turns.run(source.owner, parse);
    if (fresh === null) throw new Error('the grammar does not parse');
    const grammar = new Grammar(fresh, vocabulary.size, source);
    unused.register(grammar, fresh);
    return grammar;
  }

  async start(): Promise<GrammarState> {
    const { samplerClone } = library();
    const copy = () => later(samplerClone, this.fresh);
    return new GrammarState(await turns.run(this.source.owner, copy), this);
  }
}

/** Nobody in particular frees grammars: every choice of an owner may have the same one. */
const unused = new FinalizationRegistry((address: Pointer) => library().samplerFree(address));

/** How far one output has come in its grammar. */
export class GrammarState {
  readonly #one = new Candidates(1);
  #closed = false;
  #freed = false;
  #calls = 0;

  constructor(
    private readonly state: Pointer,
    private readonly grammar: Grammar,
  ) {}

  allows(id: number): Promise<boolean> {
    return this.#call(async () => {
      this.#one.only(id);
      await this.#apply(this.#one);
      return this.#one.allows(0);
    });
  }

  /** @throws Error for a token that it does not allow: the library would end the process. */
  async accept(id: number): Promise<void> {
    if (!(await this.allows(id))) throw new Error(`the grammar does not allow the token ${id}`);
    const { samplerAccept } = library();
    await this.#call(async () => {
      if (this.#isLight) samplerAccept(this.state, id);
      else await this.#inTurn(() => later(samplerAccept, this.state, id));
    });
  }

  /** Hands over the whole vocabulary, with what the grammar does not allow left out. */
  async filter(logits: Float32Array, take: (candidates: Candidates) => number): Promise<number> {
    return await this.#call(async () => {
      const candidates = new Candidates(this.grammar.vocabularySize);
      try {
        candidates.fill(logits);
        await this.#filter(candidates);
        return take(candidates);
      } finally {
        candidates.free();
      }
    });
  }

  /** In parts of about the same time, so that others get their turns between them. */
  async #filter(candidates: Candidates): Promise<void> {
    let count: number = limits.grammarFilterTokensMin;
    for (let from = 0; from < candidates.size; ) {
      this.#checkOpen();
      candidates.select(from, count);
      const ms = await this.#timed(() =>
        later(library().samplerApply, this.state, candidates.address),
      );
      from += count;
      count = ms < limits.grammarTurnMs / 2 ? count * 2 : limits.grammarFilterTokensMin;
    }
    candidates.select(0, candidates.size);
  }

  async #apply(candidates: Candidates): Promise<void> {
    const { samplerApply } = library();
    if (this.#isLight) samplerApply(this.state, candidates.address);
    else await this.#inTurn(() => later(samplerApply, this.state, candidates.address));
  }

  /** One token takes less time than to hand it to another thread. */
  get #isLight(): boolean {
    return this.grammar.source.width <= limits.grammarWidthLight;
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    return turns.run(this.grammar.source.owner, work);
  }

  #timed(work: () => Promise<void>): Promise<number> {
    return this.#inTurn(async () => {
      const startedAt = performance.now();
      await work();
      return performance.now() - startedAt;
    });
  }

  async #call<Result>(act: () => Promise<Result>): Promise<Result> {
    this.#checkOpen();
    this.#calls++;
    try {
      return await act();
    } finally {
      this.#calls--;
      this.#freeUnused();
    }
  }

  #checkOpen(): void {
    if (this.#closed) throw new Error('the grammar is closed');
  }

  /** A call that is under way ends first. */
  close(): void {
    this.#closed = true;
    this.#freeUnused();
  }

  #freeUnused(): void {
    if (!this.#closed || this.#freed || this.#calls > 0) return;
    this.#freed = true;
    library().samplerFree(this.state);
    this.#one.free();
  }
}
