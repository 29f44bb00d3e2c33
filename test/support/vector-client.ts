/**
 * Owns the steps that tests of embeddings and rankings share: the models, the request, the vectors of its answer.
 * It must never accept an answer that a client would not.
 */
import type { WireEmbeddings } from '../../src/protocol/embeddings.js';
import type { WireRanking } from '../../src/protocol/rerank.js';
import type { Fields } from './chat-client.js';
import type { TestService } from './service.js';

/** Tables of the settings file: models of each kind that need no weights. */
export const echoModels: Fields = {
  'svc-v1-8k': { family: 'svc-v1', window: 8192, engine: 'echo' },
  embedder: { engine: 'echo', kind: 'embedding', window: 512 },
  ranker: { engine: 'echo', kind: 'rerank', window: 512 },
};

export async function embeddings(service: TestService, body: Fields): Promise<WireEmbeddings> {
  return await answer(service, '/embeddings', body);
}

export async function ranked(service: TestService, body: Fields): Promise<WireRanking> {
  return await answer(service, '/rerank', body);
}

async function answer<Wire>(service: TestService, path: string, body: Fields): Promise<Wire> {
  const response = await service.call('POST', path, body);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as Wire;
}

/** The vectors in the order of their inputs, whatever they are written in. */
export function vectorsOf({ data }: WireEmbeddings): number[][] {
  return data.map(({ embedding }) =>
    typeof embedding === 'string' ? floatsOf(embedding) : embedding,
  );
}

function floatsOf(base64: string): number[] {
  const bytes = Uint8Array.from(Buffer.from(base64, 'base64'));
  return [...new Float32Array(bytes.buffer)];
}

export function lengthOf(vector: readonly number[]): number {
  return Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
}

export function likeness(a: readonly number[] = [], b: readonly number[] = []): number {
  return a.reduce((sum, number, at) => sum + number * (b[at] ?? 0), 0);
}
