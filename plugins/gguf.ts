/**
 * Owns the reading of a GGUF file's metadata, for every plugin that asks a model's file for its facts.
 * It must never read tensors.
 */
import { gguf } from '@huggingface/gguf';

export type GgufMetadata = Readonly<Record<string, unknown>>;

export async function readGgufMetadata(path: string): Promise<GgufMetadata> {
  const { metadata } = await gguf(path, { allowLocalFile: true });
  return metadata as unknown as GgufMetadata;
}
