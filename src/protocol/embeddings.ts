/**
 * Owns the wire shapes of embeddings: a request of texts or ids, and a reply that is written vector by vector.
 * It must never know a model: whether an input is too long is found where its tokens are counted.
 */
import { type ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { refuse } from './chat-faults.js';
import { JsonPieces } from './completion.js';
import { absent, compile, isObject, type Static, Type } from './schema.js';

const text = Type.String({ minLength: 1 });
const ids = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });
const inputsMax = limits.vectorInputsMax;

export const embeddingRequestSchema = Type.Object({
  model: Type.String({ minLength: 1 }),
  input: Type.Union(
    [
      text,
      Type.Array(text, { minItems: 1, maxItems: inputsMax }),
      ids,
      Type.Array(ids, { minItems: 1, maxItems: inputsMax }),
    ],
    { description: 'A text, token ids, or a list of either; each gets a vector of its own.' },
  ),
  encoding_format: absent(
    Type.Enum(['float', 'base64'], {
      description: '`base64`: 32-bit floats, the lowest byte first. Default: `float`.',
    }),
  ),
  dimensions: absent(
    Type.Integer({
      minimum: 1,
      description: 'The first so many numbers, brought to length 1, of a model trained for that.',
    }),
  ),
});

const usageSchema = Type.Object({
  prompt_tokens: Type.Integer({ minimum: 0 }),
  total_tokens: Type.Integer({ minimum: 0 }),
});

export const embeddingListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Type.Integer({ minimum: 0 }),
      embedding: Type.Union([Type.Array(Type.Number()), Type.String()]),
    }),
  ),
  model: Type.String(),
  usage: usageSchema,
});

export type WireEmbeddings = Static<typeof embeddingListSchema>;

/** A text, or ids of the model's vocabulary. */
export type VectorInput = string | readonly number[];

export interface EmbeddingSettings {
  readonly model: string;
  /** Whether the client sent a list of inputs. */
  readonly isList: boolean;
  readonly asBase64: boolean;
  /** null: all of the model's. */
  readonly dimensions: number | null;
}

export interface EmbeddingRequest extends EmbeddingSettings {
  readonly inputs: readonly VectorInput[];
}

const fits = compile(embeddingRequestSchema);

/** @throws ApiError that names the field, what came and what is allowed. */
export function parseEmbeddingRequest(value: unknown): EmbeddingRequest {
  if (!fits(value)) throw tooMany(value) ?? refuse(embeddingRequestSchema, value);
  const { model, input, encoding_format: format, dimensions } = value;
  return {
    model,
    ...inputsOf(input),
    asBase64: format === 'base64',
    dimensions: dimensions ?? null,
  };
}

/** A list that is too long fits no branch of the schema, and the longest-fitting one is that of ids. */
function tooMany(value: unknown): ApiError | null {
  const input = isObject(value) ? value.input : null;
  if (!Array.isArray(input) || input.length <= inputsMax || Number.isInteger(input[0])) return null;
  return invalid(`input must have at most ${inputsMax} items, got ${input.length}`, 'input');
}

function inputsOf(
  input: Static<typeof embeddingRequestSchema>['input'],
): Pick<EmbeddingRequest, 'inputs' | 'isList'> {
  if (typeof input === 'string') return { inputs: [input], isList: false };
  const [first] = input;
  if (typeof first === 'number') return { inputs: [input as readonly number[]], isList: false };
  return { inputs: input as readonly VectorInput[], isList: true };
}

/** How the client names an input: `input[3]`. */
export function inputField(isList: boolean, index: number): string {
  return isList ? `input[${index}]` : 'input';
}

export function foreignId(field: string, id: number, vocabulary: number): ApiError {
  return invalid(`${field} must hold token ids below ${vocabulary}, got ${id}`, field);
}

/** One item of the list. */
export function wireEmbedding(vector: Float32Array, index: number, asBase64: boolean): string {
  const embedding = asBase64
    ? `"${Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64')}"`
    : `[${vector.join(',')}]`;
  return `{"object":"embedding","index":${index},"embedding":${embedding}}`;
}

/** @param items each as above, with a comma before all but the first. */
export function embeddingList(
  model: string,
  items: readonly Uint8Array[],
  tokens: number,
): JsonPieces {
  const end = { model, usage: vectorUsage(tokens) };
  return new JsonPieces([
    Buffer.from('{"object":"list","data":['),
    ...items,
    Buffer.from(`],${JSON.stringify(end).slice(1)}`),
  ]);
}

export function vectorUsage(tokens: number): Static<typeof usageSchema> {
  return { prompt_tokens: tokens, total_tokens: tokens };
}
