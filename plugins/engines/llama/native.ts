/**
 * Owns loaded weights and what is made from them: contexts, samplers, grammars, text of tokens and back.
 * It must never evaluate anything, nor decide what fits into memory.
 */
import { open } from 'node:fs/promises';
import { Candidates } from './candidates.js';
import { Context, type ContextSettings } from './context.js';
import { Grammar, type GrammarSource, grammarsIdle } from './grammar.js';
import { type Library, later, library, type Pointer, withLog } from './libllama.js';
import type { ModelFacts } from './memory.js';
import { readModelFacts, refusalOf } from './model-facts.js';
import { Sampler, type SamplerSettings } from './sampler.js';

export class Runtime {
  private constructor(private readonly functions: Library) {}

  /** Release and kind of the library that evaluates. */
  get build(): string {
    return this.functions.build;
  }

  static async open(): Promise<Runtime> {
    return new Runtime(library());
  }

  async load(path: string): Promise<Weights> {
    let said = '';
    try {
      await checkHeader(path);
      const params = this.functions.modelDefaults();
      const { result, log } = await withLog(() => later(this.functions.modelLoad, path, params));
      said = log;
      if (result === null) throw new Error('the library refuses it');
      return new Weights(result, await readModelFacts(path, result));
    } catch (cause) {
      throw weightsError(path, cause, said);
    }
  }
}

/** The library's own reader takes any count it finds and reads on, for minutes, past the end of the file. */
async function checkHeader(path: string): Promise<void> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(24), 0, 24, 0);
    const { size } = await file.stat();
    const counts = buffer.readBigUInt64LE(8) + buffer.readBigUInt64LE(16);
    const known = buffer.toString('latin1', 0, 4) === 'GGUF' && buffer.readUInt32LE(4) <= 3;
    // No tensor and no setting takes less than a byte; a GGUF of any model has far fewer of them than this.
    if (bytesRead < 24 || !known || counts > BigInt(size))
      throw new Error('its header is not that of a GGUF');
  } finally {
    await file.close();
  }
}

function weightsError(path: string, cause: unknown, log: string): Error {
  const message = cause instanceof Error ? cause.message : String(cause);
  const missing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT';
  const why = missing ? 'is missing' : `cannot be loaded (${log || message}); it may be damaged`;
  return new Error(
    `The weights file ${path} ${why}. Delete it if it is there and fetch it again with "preface models pull".`,
    { cause },
  );
}

const PIECE_BYTES = 64;

export class Weights {
  readonly #functions = library();
  readonly #vocabulary: Pointer;
  readonly #candidates: Candidates;
  readonly endId: number;
  #closed = false;

  constructor(
    private readonly model: Pointer,
    readonly facts: ModelFacts,
  ) {
    const { modelVocab, vocabEndOfText, vocabEndOfTurn } = this.#functions;
    this.#vocabulary = modelVocab(model);
    this.#candidates = new Candidates(facts.vocabularySize);
    const endOfText = vocabEndOfText(this.#vocabulary);
    this.endId = endOfText >= 0 ? endOfText : vocabEndOfTurn(this.#vocabulary);
  }

  /** Why no answer can be made with it, or null. */
  get refusal(): string | null {
    return refusalOf(this.model, this.facts);
  }

  isEnd(id: number): boolean {
    return this.#isId(id) && this.#functions.vocabIsEnd(this.#vocabulary, id);
  }

  tokenize(text: string): number[] {
    const bytes = Buffer.from(text, 'utf8');
    // No token is made of less than a byte; a vocabulary may put a space before the text.
    const ids = new Int32Array(bytes.length + 8);
    const { tokenize } = this.#functions;
    const count = tokenize(this.#vocabulary, bytes, bytes.length, ids, ids.length, false, false);
    if (count < 0) throw new Error('the text has more tokens than bytes');
    return [...ids.subarray(0, count)];
  }

  /** Text of one id, special ones too; a part of a character comes out as U+FFFD. */
  piece(id: number): string {
    if (!this.#isId(id)) throw new Error(`the vocabulary has no token ${id}`);
    const { pieceOf } = this.#functions;
    const read = (bytes: Buffer) => pieceOf(this.#vocabulary, id, bytes, bytes.length, 0, true);
    const short = Buffer.alloc(PIECE_BYTES);
    const length = read(short);
    if (length >= 0) return short.toString('utf8', 0, length);
    const long = Buffer.alloc(-length);
    return long.toString('utf8', 0, Math.max(0, read(long)));
  }

  #isId(id: number): boolean {
    return Number.isInteger(id) && id >= 0 && id < this.facts.vocabularySize;
  }

  context(settings: Omit<ContextSettings, 'yarn'>): Promise<Context> {
    const { memory, slidingWindow, vocabularySize, trainedWindow } = this.facts;
    const factor = settings.window / trainedWindow;
    const yarn = factor > 1 ? { factor, trainedWindow } : null;
    const of = { model: this.model, memory, slidingWindow, vocabularySize };
    return Context.open(of, { ...settings, yarn });
  }

  sampler(settings: SamplerSettings): Sampler {
    return new Sampler(this.#candidates, settings);
  }

  /** @throws Error when the grammar does not parse. */
  grammar(text: string, source: GrammarSource): Promise<Grammar> {
    if (this.#closed) return Promise.reject(new Error('the weights are closed'));
    const vocabulary = { address: this.#vocabulary, size: this.facts.vocabularySize };
    return Grammar.parse(text, vocabulary, source);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await grammarsIdle();
    this.#candidates.free();
    await later(this.#functions.modelFree, this.model);
  }
}
