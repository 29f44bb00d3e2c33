/**
 * Owns the door to node-llama-cpp: the library itself, weights, and what is made from them.
 * It must never evaluate anything, nor decide what fits into memory.
 */
import { open } from 'node:fs/promises';
import {
  getLlama,
  type Llama,
  LlamaGrammarEvaluationState,
  LlamaLogLevel,
  type LlamaModel,
  type LlamaModelOptions,
} from 'node-llama-cpp';
import { type AddonSamplerClass, Context, Grammar, Sampler } from './addon.js';
import type { ModelFacts } from './memory.js';

type Overrides = NonNullable<LlamaModelOptions['metadataOverrides']>;

export interface Yarn {
  readonly architecture: string;
  readonly factor: number;
  readonly trainedWindow: number;
}

export class Runtime {
  readonly build: string;
  #lastError = '';

  private constructor(private readonly llama: Llama) {
    this.build = `${llama.llamaCppRelease.release} ${llama.gpu === false ? 'cpu' : llama.gpu}`;
    llama.logger = (_level, message) => {
      this.#lastError = message.trim();
    };
  }

  static async open(): Promise<Runtime> {
    return new Runtime(
      await getLlama({
        build: 'never',
        logLevel: LlamaLogLevel.error,
        progressLogs: false,
        // Threads are set for each batch; the library's own sharing of threads would undo that.
        maxThreads: 0,
      }),
    );
  }

  async load(path: string, yarn: Yarn | null): Promise<Weights> {
    this.#lastError = '';
    try {
      await checkHeader(path);
      const model = await this.llama.loadModel({
        modelPath: path,
        useMmap: true,
        ignoreMemorySafetyChecks: true,
        ...(yarn === null ? {} : { metadataOverrides: yarnOverrides(yarn) }),
      });
      return new Weights(this.llama, model);
    } catch (cause) {
      throw weightsError(path, cause, this.#lastError);
    }
  }

  async close(): Promise<void> {
    await this.llama.dispose();
  }
}

function yarnOverrides({ architecture, factor, trainedWindow }: Yarn): Overrides {
  // An integer is sent as an integer and refused as "expected float"; as a 32-bit float this is the factor itself.
  const float = Number.isInteger(factor) ? factor * (1 + 1e-9) : factor;
  const scaling = { type: 'yarn', factor: float, original_context_length: trainedWindow };
  return { [architecture]: { rope: { scaling } } } as Overrides;
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

export class Weights {
  /** As many as were ever at work at the same time. */
  readonly #idleSamplers: Sampler[] = [];
  readonly facts: ModelFacts;
  readonly endId: number;

  constructor(
    private readonly llama: Llama,
    private readonly model: LlamaModel,
  ) {
    this.facts = modelFacts(model);
    this.endId = Number(model.tokens.eos ?? model.tokens.eot ?? -1);
  }

  isEnd(id: number): boolean {
    return this.model.isEogToken(id as never);
  }

  tokenize(text: string): number[] {
    return [...this.model.tokenize(text, false)];
  }

  /** Text of one id, special ones too; a part of a character comes out as U+FFFD. */
  piece(id: number): string {
    return this.model.detokenize([id as never], true);
  }

  async context(window: number, sequences: number, flashAttention: boolean, batch: number) {
    const context = await this.model.createContext({
      contextSize: window,
      sequences,
      batchSize: batch,
      flashAttention,
      ignoreMemorySafetyChecks: true,
      failedCreationRemedy: false,
    });
    return new Context(context);
  }

  /** One that was closed before, where there is one: what a disposed one holds is freed when V8 sees fit, which is late. */
  sampler(): Sampler {
    const keep = (sampler: Sampler) => void this.#idleSamplers.push(sampler);
    return (
      this.#idleSamplers.pop() ??
      new Sampler(addonSampler(this.llama), addonModel(this.model), keep)
    );
  }

  /** @throws Error when the grammar does not parse. */
  async grammar(text: string): Promise<Grammar> {
    const grammar = await this.llama.createGrammar({ grammar: text });
    // Parsed once; every choice starts from a clone.
    const fresh = new LlamaGrammarEvaluationState({ model: this.model, grammar });
    return new Grammar(addonSampler(this.llama), fresh);
  }

  async close(): Promise<void> {
    for (const sampler of this.#idleSamplers.splice(0)) sampler.dispose();
    await this.model.dispose();
  }
}

function modelFacts(model: LlamaModel): ModelFacts {
  const llm = model.fileInfo.architectureMetadata;
  const layers = Number(llm.block_count);
  const heads = Number(llm.attention?.head_count ?? 1);
  const keyValueHeads = Number(llm.attention?.head_count_kv ?? heads);
  const headSize = Number(llm.embedding_length ?? 0) / heads;
  const keySize = Number(llm.attention?.key_length ?? headSize);
  const valueSize = Number(llm.attention?.value_length ?? headSize);
  return {
    architecture: String(model.fileInfo.metadata.general.architecture),
    trainedWindow: model.trainContextSize,
    heads,
    vocabularySize: model.fileInfo.metadata.tokenizer.ggml.tokens.length,
    // Keys and values are 16-bit floats.
    bytesPerToken: layers * keyValueHeads * (keySize + valueSize) * 2,
    weightsBytes: model.size,
    description: model.typeDescription,
  };
}

function addonModel(model: LlamaModel): object {
  return (model as unknown as { _model: object })._model;
}

function addonSampler(llama: Llama): AddonSamplerClass {
  return (llama as unknown as { _bindings: { AddonSampler: AddonSamplerClass } })._bindings
    .AddonSampler;
}
