/**
 * Owns what a model's file and the library say of it: its kind of memory, and the bytes that it keeps of each token.
 * It must never offer a model whose answers the engine cannot produce.
 */
import { type GgufMetadata, readGgufMetadata } from '../../gguf.js';
import { library, type Pointer } from './libllama.js';
import type { MemoryKind, ModelFacts } from './memory.js';

const TEXT_BYTES = 256;

export async function readModelFacts(path: string, model: Pointer): Promise<ModelFacts> {
  const functions = library();
  const metadata = await readGgufMetadata(path);
  const text = Buffer.alloc(TEXT_BYTES);
  functions.modelDescription(model, text, TEXT_BYTES);
  const architecture = String(metadata['general.architecture']);
  const slidingWindow = Math.max(0, functions.modelSlidingWindow(model));
  return {
    architecture,
    memory: memoryKind(model, slidingWindow),
    slidingWindow,
    trainedWindow: functions.modelTrainedWindow(model),
    vocabularySize: functions.vocabSize(functions.modelVocab(model)),
    weightsBytes: Number(functions.modelSize(model)),
    description: text.toString('utf8', 0, text.indexOf(0)),
    ...memoryBytes(metadata, architecture),
  };
}

function memoryKind(model: Pointer, slidingWindow: number): MemoryKind {
  const functions = library();
  if (functions.modelRecurrent(model)) return 'recurrent';
  if (functions.modelHybrid(model)) return 'hybrid';
  return slidingWindow > 0 ? 'window' : 'dense';
}

/** Why the engine cannot answer with this model, or null. */
export function refusalOf(model: Pointer, facts: ModelFacts): string | null {
  const functions = library();
  if (functions.modelHasEncoder(model)) return 'it has an encoder, and this engine decodes only';
  if (!functions.modelHasDecoder(model)) return 'it makes embeddings and no text';
  if (functions.modelDiffusion(model)) return 'it writes by diffusion, not token by token';
  const { bytesPerToken, bytesPerState } = facts;
  if (!(bytesPerToken >= 0) || !(bytesPerState >= 0))
    return 'its file does not say how much memory a token takes';
  return bytesPerToken + bytesPerState === 0 ? 'its file names no layers' : null;
}

/** Keys, values and recurrent states, by the sizes that the file names; keys and values are 16-bit floats. */
export function memoryBytes(
  metadata: GgufMetadata,
  architecture: string,
): Pick<ModelFacts, 'heads' | 'bytesPerToken' | 'bytesPerState'> {
  const at = (key: string) => metadata[`${architecture}.${key}`];
  const number = (key: string, otherwise = 0) => Number(at(key) ?? otherwise);
  const layers = number('block_count');
  const heads = largest(at('attention.head_count'), 1);
  const headSize = heads > 0 ? number('embedding_length') / heads : 0;
  const perHead =
    number('attention.key_length', headSize) + number('attention.value_length', headSize);
  const keyValueHeads = headsByLayer(at('attention.head_count_kv') ?? heads, layers);
  const attention = attentionLayers(at('full_attention_interval'), keyValueHeads);
  return {
    heads: Math.max(1, heads),
    bytesPerToken: attention.reduce((sum, count) => sum + count, 0) * perHead * 2,
    bytesPerState: layers * stateFloats(number) * 4,
  };
}

function headsByLayer(value: unknown, layers: number): number[] {
  const each = Array.isArray(value) ? value.map(Number) : null;
  return Array.from({ length: layers }, (_, layer) => each?.[layer] ?? (each ? 0 : Number(value)));
}

/** Every so many layers one has attention; the others' heads are those of a recurrent state. */
function attentionLayers(interval: unknown, heads: readonly number[]): readonly number[] {
  const every = Number(interval ?? 1);
  return every > 1 ? heads.filter((_, layer) => (layer + 1) % every === 0) : heads;
}

/** Of one layer: the inputs that its convolution still sees, and its state. */
function stateFloats(number: (key: string, otherwise?: number) => number): number {
  const inner = number('ssm.inner_size');
  const state = number('ssm.state_size');
  const groups = number('ssm.group_count');
  const seen = Math.max(0, number('ssm.conv_kernel') - 1) * (inner + 2 * groups * state);
  const short = Math.max(0, number('shortconv.l_cache') - 1) * number('embedding_length');
  return seen + inner * state + short;
}

function largest(value: unknown, otherwise: number): number {
  return Array.isArray(value) ? Math.max(...value.map(Number)) : Number(value ?? otherwise);
}
