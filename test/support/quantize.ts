/**
 * Owns the conversion of small models to other types of weights and to fewer layers, by the library that the engine uses.
 * It must never be used while something else is to happen on its thread: it blocks it.
 */
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import koffi from 'koffi';

/** Values of `llama_ftype`. */
const TYPES = { q4_0: 2, q8_0: 7, q4_K: 15 } as const;

export type QuantizedType = keyof typeof TYPES;

const PARAMS = {
  nthread: 'int32_t',
  ftype: 'int32_t',
  output_type: 'int32_t',
  embedding_type: 'int32_t',
  allow_requantize: 'bool',
  quantize_output: 'bool',
  only_copy: 'bool',
  pure: 'bool',
  keep_split: 'bool',
  dry_run: 'bool',
  imatrix: 'void *',
  kv_overrides: 'void *',
  tt_overrides: 'void *',
  prune_layers: 'int32_t *',
  max_buf_size: 'size_t',
};

/** Converts every tensor that can be. */
export function quantize(from: string, to: string, type: QuantizedType): void {
  write(from, to, { ftype: TYPES[type], pure: true, allow_requantize: true });
}

/**
 * The same weights with their first layers alone: each layer has the same kernels and shapes as the next, and takes its time. For
 * tests that compare answers with each other, and need no sense in them.
 */
export function keepLayers(from: string, to: string, kept: number, all: number): void {
  const pruned = Array.from({ length: all - kept }, (_, at) => kept + at);
  write(from, to, { only_copy: true, prune_layers: Int32Array.of(...pruned, -1) });
}

function write(from: string, to: string, options: object): void {
  const platform = `${process.platform}-${process.arch}`;
  const main = createRequire(import.meta.url).resolve(`@node-llama-cpp/${platform}`);
  const folder = join(dirname(main), '..', 'bins', platform);
  const file = readdirSync(folder).find((name) => /^libllama\.v/.test(name)) ?? '';
  const llama = koffi.load(join(folder, file));
  const params = koffi.struct(PARAMS);
  const defaults = llama.func('llama_model_quantize_default_params', params, [])();
  const convert = llama.func('llama_model_quantize', 'uint32_t', [
    'str',
    'str',
    koffi.pointer(params),
  ]);
  const status = convert(from, to, {
    ...defaults,
    nthread: 2,
    ...options,
  });
  if (status !== 0) throw new Error(`${to} was not written (${status})`);
}
