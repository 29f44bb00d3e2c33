/**
 * Owns vectors and scores from upstreams: `/embeddings` and `/rerank`, as every compatible server has them.
 * It must never take an answer in part: a vector of each input comes, or an error.
 */
import {
  type EngineEvent,
  limits,
  type VectorFacts,
  type VectorTask,
  type VectorTexts,
} from 'preface/plugin';
import { firstToAnswer } from './attempts.js';
import { broken, failureOf } from './failure.js';
import type { Replica, Replicas } from './replicas.js';

/** The server counts, puts together and shortens by itself. */
export const remoteVectors: VectorFacts = {
  dimensions: null,
  shortens: true,
  before: [],
  after: [],
  pair: { type: 'template', text: '' },
  takesTexts: true,
};

interface Made {
  readonly vectors: readonly Float32Array[];
  readonly tokens: number;
}

export async function* vectorsFrom(
  replicas: Replicas,
  { texts }: VectorTask,
  signal: AbortSignal,
): AsyncGenerator<EngineEvent> {
  if (texts === undefined) throw new Error('the task has no texts');
  let promptTokens = 0;
  for (const part of partsOf(texts)) {
    const made = await firstToAnswer(replicas.order(null), signal, (replica) =>
      ask(replica, part, signal),
    );
    promptTokens += made.tokens;
    for (let at = 0; at < made.vectors.length; at += limits.vectorsAheadMax / 4) {
      yield { type: 'vectors', vectors: made.vectors.slice(at, at + limits.vectorsAheadMax / 4) };
    }
  }
  yield { type: 'usage', promptTokens, reusedTokens: 0, completionTokens: [] };
}

/** Requests of so many inputs: each answer is bounded, and a client that leaves ends the rest. */
function* partsOf(texts: VectorTexts): Generator<VectorTexts> {
  const most = limits.upstreamVectorInputsMax;
  const all = texts.type === 'embedding' ? texts.inputs : texts.documents;
  for (let at = 0; at < all.length; at += most) {
    if (texts.type === 'embedding') yield { ...texts, inputs: texts.inputs.slice(at, at + most) };
    else yield { ...texts, documents: texts.documents.slice(at, at + most) };
  }
}

async function ask(replica: Replica, texts: VectorTexts, signal: AbortSignal): Promise<Made> {
  const { connection, upstream } = replica;
  replica.running += 1;
  try {
    const path = texts.type === 'embedding' ? '/embeddings' : '/rerank';
    const body = JSON.stringify({ model: upstream.model, ...wireOf(texts) });
    const answer = await connection.ask({ path, body, signal });
    const { status, retryAfterMs } = answer;
    const text = await answer.text();
    if (status !== 200) throw failureOf({ status, retryAfterMs, text }, upstream.apiKey);
    const json = jsonOf(text);
    return texts.type === 'embedding'
      ? madeOf(json, json?.data, texts.inputs.length, vectorOf)
      : madeOf(json, json?.results ?? json?.data, texts.documents.length, scoreOf);
  } finally {
    replica.running -= 1;
  }
}

function wireOf(texts: VectorTexts): object {
  if (texts.type === 'rerank') {
    const { query, documents } = texts;
    return { query, documents, return_documents: false };
  }
  const { inputs, dimensions } = texts;
  // A third of the bytes of numbers in text, and the very bits.
  return {
    input: inputs,
    encoding_format: 'base64',
    ...(dimensions === null ? {} : { dimensions }),
  };
}

interface Answer {
  readonly data?: unknown;
  readonly results?: unknown;
  readonly usage?: { readonly prompt_tokens?: unknown; readonly total_tokens?: unknown } | null;
}

function jsonOf(text: string): Answer | null {
  try {
    return JSON.parse(text) as Answer | null;
  } catch {
    throw broken('it is no JSON, or too long');
  }
}

interface Item {
  readonly index?: unknown;
  readonly embedding?: unknown;
  readonly relevance_score?: unknown;
  readonly score?: unknown;
}

/** By their index, in whatever order they come. @throws UpstreamError where one is missing. */
function madeOf(
  json: Answer | null,
  list: unknown,
  count: number,
  read: (item: Item) => Float32Array | null,
): Made {
  const vectors: Float32Array[] = [];
  for (const item of Array.isArray(list) ? (list as readonly (Item | null)[]) : []) {
    const index = Number(item?.index);
    const vector = item && index >= 0 && index < count ? read(item) : null;
    if (vector !== null) vectors[index] = vector;
  }
  if (Object.keys(vectors).length !== count)
    throw broken(`it has no vector for each of ${count} inputs`);
  return { vectors, tokens: tokensOf(json?.usage) };
}

function tokensOf(usage: Answer['usage']): number {
  const told = Number(usage?.prompt_tokens ?? usage?.total_tokens ?? 0);
  return Number.isInteger(told) && told >= 0 ? told : 0;
}

/** Some servers write numbers whatever they are asked for. */
function vectorOf({ embedding }: Item): Float32Array | null {
  if (typeof embedding === 'string') {
    const bytes = Uint8Array.from(Buffer.from(embedding, 'base64'));
    return bytes.length % 4 === 0 ? finite(new Float32Array(bytes.buffer)) : null;
  }
  return Array.isArray(embedding) ? finite(Float32Array.from(embedding as number[])) : null;
}

function scoreOf({ relevance_score: told, score }: Item): Float32Array | null {
  return finite(Float32Array.of(Number(told ?? score)));
}

function finite(vector: Float32Array): Float32Array | null {
  return vector.length > 0 && vector.every(Number.isFinite) ? vector : null;
}
