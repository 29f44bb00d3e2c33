/**
 * Owns the reading of a GGUF file's head, for every plugin that asks a model's file for its facts.
 * It must never read the numbers of a tensor.
 */
import { stat } from 'node:fs/promises';
import { GGMLQuantizationType, gguf } from '@huggingface/gguf';
import { partNames } from 'preface/plugin';

export { type GgufMetadata, readGgufHead as readGgufMetadata } from './gguf-head.js';

export interface GgufNumbers {
  /** Bytes of all tensors by the type of their numbers, most first. */
  readonly types: { type: string; bytes: number }[];
  readonly parameters: number;
}

/** Of all parts of the weights. */
export async function readGgufNumbers(path: string): Promise<GgufNumbers> {
  const parts = await Promise.all(partNames(path).map(numbersOf));
  const bytes = new Map<string, number>();
  for (const { types } of parts)
    for (const each of types) bytes.set(each.type, (bytes.get(each.type) ?? 0) + each.bytes);
  const types = [...bytes].map(([type, sum]) => ({ type, bytes: sum }));
  const parameters = parts.reduce((sum, part) => sum + part.parameters, 0);
  return { types: types.sort((a, b) => b.bytes - a.bytes), parameters };
}

async function numbersOf(path: string): Promise<GgufNumbers> {
  const { tensorInfos, tensorDataOffset } = await gguf(path, { allowLocalFile: true });
  const end = BigInt((await stat(path)).size) - tensorDataOffset;
  // Each ends where the next one begins, but for a few bytes of padding.
  const inOrder = tensorInfos.toSorted((a, b) => Number(a.offset - b.offset));
  const bytes = new Map<string, number>();
  for (const [at, { dtype, offset }] of inOrder.entries()) {
    const type = GGMLQuantizationType[dtype] ?? `type ${dtype}`;
    const size = Number((inOrder[at + 1]?.offset ?? end) - offset);
    bytes.set(type, (bytes.get(type) ?? 0) + size);
  }
  const types = [...bytes].map(([type, sum]) => ({ type, bytes: sum }));
  const sizes = tensorInfos.map(({ shape }) =>
    shape.reduce((size, side) => size * Number(side), 1),
  );
  const parameters = sizes.reduce((sum, size) => sum + size, 0);
  return { types, parameters };
}
