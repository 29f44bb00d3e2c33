/**
 * Owns the choice of the next token from logits: the best one, or one by chance, within a grammar where there is one.
 * It must never leave a native object behind that nobody frees, nor hand a grammar a token that it does not allow.
 */
import {
  allocate,
  floatsAt,
  intsAt,
  type Library,
  library,
  type Pointer,
  release,
} from './libllama.js';

export interface SamplerSettings {
  /** 0: the best token. */
  readonly temperature: number;
  readonly topP: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly seed: number;
}

/** Bytes of `llama_token_data`: id, logit, probability. */
const CANDIDATE_BYTES = 12;
/** Bytes of `llama_token_data_array`: address, count, selected, sorted. */
const ARRAY_BYTES = 32;

/** The library's list of candidates. One for a vocabulary: choices are made one after the other. */
export class Candidates {
  readonly #data: Pointer;
  readonly #array: Pointer;
  readonly #ids: Int32Array;
  readonly #logits: Float32Array;
  readonly #fields: BigInt64Array;

  constructor(
    private readonly functions: Library,
    readonly size: number,
  ) {
    this.#data = allocate(size * CANDIDATE_BYTES);
    this.#array = allocate(ARRAY_BYTES);
    this.#ids = intsAt(this.#data, size * 3);
    this.#logits = floatsAt(this.#data, size * 3);
    this.#fields = new BigInt64Array(intsAt(this.#array, ARRAY_BYTES / 4).buffer);
  }

  fill(logits: Float32Array): void {
    const { size } = this;
    for (let id = 0, at = 0; id < size; id++, at += 3) {
      this.#ids[at] = id;
      this.#logits[at + 1] = logits[id] ?? 0;
    }
    this.#reset(size);
  }

  /** Whether the sampler would take this token after what it has taken. */
  allowed(sampler: Pointer, id: number): boolean {
    this.#ids[0] = id;
    this.#logits[1] = 1;
    this.#reset(1);
    this.functions.samplerApply(sampler, this.#array);
    return this.#logits[1] !== Number.NEGATIVE_INFINITY;
  }

  apply(sampler: Pointer): void {
    this.functions.samplerApply(sampler, this.#array);
  }

  /** What the last sampler selected; null for nothing, or for what a grammar does not allow. */
  selected(): number | null {
    const at = Number(this.#fields[2]) * 3;
    const count = Number(this.#fields[1]) * 3;
    if (at < 0 || at >= count) return null;
    return this.#logits[at + 1] === Number.NEGATIVE_INFINITY ? null : (this.#ids[at] ?? null);
  }

  #reset(count: number): void {
    const fields = this.#fields;
    fields[0] = this.#data;
    fields[1] = BigInt(count);
    fields[2] = -1n;
    fields[3] = 0n;
  }

  free(): void {
    release(this.#data);
    release(this.#array);
  }
}

/** Keeps the random state and the penalties of one choice from token to token. */
export class Sampler {
  readonly #functions = library();
  /** Null once freed. */
  #chain: Pointer | null;
  readonly #greedy: boolean;
  /** How often each id was generated; the prompt is never punished. */
  readonly #counts = new Map<number, number>();
  readonly #penalised: boolean;
  #punished: Float32Array | null = null;

  constructor(
    private readonly candidates: Candidates,
    private readonly settings: SamplerSettings,
  ) {
    this.#greedy = settings.temperature <= 0;
    this.#penalised = settings.presencePenalty !== 0 || settings.frequencyPenalty !== 0;
    this.#chain = newChain(this.#functions, settings);
  }

  /** @throws Error when nothing can be chosen. */
  next(raw: Float32Array, grammar: GrammarState | null): number {
    const logits = this.#penalised ? this.#punish(raw) : raw;
    const id = this.#choose(logits);
    if (!grammar || grammar.allows(id)) return id;
    // Rare: a grammar that looks at the whole vocabulary takes longer than everything else.
    return this.#choose(logits, grammar);
  }

  #choose(logits: Float32Array, grammar: GrammarState | null = null): number {
    if (this.#greedy && !grammar) return best(logits);
    if (this.#chain === null) throw new Error('the sampler is closed');
    this.candidates.fill(logits);
    if (grammar) this.candidates.apply(grammar.address);
    this.candidates.apply(this.#chain);
    const id = this.candidates.selected();
    if (id === null) throw new Error('no token could be sampled');
    return id;
  }

  #punish(raw: Float32Array): Float32Array {
    const { frequencyPenalty, presencePenalty } = this.settings;
    this.#punished ??= new Float32Array(raw.length);
    this.#punished.set(raw);
    for (const [id, count] of this.#counts)
      this.#punished[id] = (raw[id] ?? 0) - count * frequencyPenalty - presencePenalty;
    return this.#punished;
  }

  /** A token came out of this choice. */
  take(id: number): void {
    if (this.#penalised) this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
  }

  close(): void {
    if (this.#chain !== null) this.#functions.samplerFree(this.#chain);
    this.#chain = null;
  }
}

function newChain(functions: Library, { temperature, topP, seed }: SamplerSettings): Pointer {
  const chain = functions.chainInit({ no_perf: true });
  const add = (sampler: Pointer) => functions.chainAdd(chain, sampler);
  if (temperature <= 0) {
    add(functions.samplerGreedy());
    return chain;
  }
  if (topP < 1) add(functions.samplerTopP(topP, 1));
  add(functions.samplerTemperature(temperature));
  add(functions.samplerDistribution(seed));
  return chain;
}

function best(logits: Float32Array): number {
  let id = 0;
  let highest = logits[0] ?? 0;
  for (let i = 1; i < logits.length; i++) {
    const logit = logits[i] ?? 0;
    if (logit > highest) {
      highest = logit;
      id = i;
    }
  }
  if (Number.isNaN(highest)) throw new Error('the logits are no numbers');
  return id;
}

/** A parsed grammar, for one vocabulary; every choice starts from a copy of it. */
export class Grammar {
  private constructor(
    private readonly fresh: Pointer,
    private readonly candidates: Candidates,
  ) {}

  /** @throws Error when the text does not parse. */
  static parse(text: string, vocabulary: Pointer, candidates: Candidates): Grammar {
    const fresh = library().samplerGrammar(vocabulary, text, 'root');
    if (fresh === null) throw new Error('the grammar does not parse');
    const grammar = new Grammar(fresh, candidates);
    unused.register(grammar, fresh);
    return grammar;
  }

  start(): GrammarState {
    return new GrammarState(library().samplerClone(this.fresh), this.candidates);
  }
}

/** How far one output has come in its grammar. */
export class GrammarState {
  #closed = false;

  constructor(
    private readonly state: Pointer,
    private readonly candidates: Candidates,
  ) {}

  get address(): Pointer {
    if (this.#closed) throw new Error('the grammar is closed');
    return this.state;
  }

  allows(id: number): boolean {
    return this.candidates.allowed(this.address, id);
  }

  /** @throws Error for a token that it does not allow: the library would end the process. */
  accept(id: number): void {
    if (!this.allows(id)) throw new Error(`the grammar does not allow the token ${id}`);
    library().samplerAccept(this.address, id);
  }

  close(): void {
    if (!this.#closed) library().samplerFree(this.state);
    this.#closed = true;
  }
}

/** All samplers with the same rule share a grammar, so none of them frees it. */
const unused = new FinalizationRegistry((address: Pointer) => library().samplerFree(address));
