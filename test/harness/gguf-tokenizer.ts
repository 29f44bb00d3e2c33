/**
 * Owns the tokenizer of the small real model in the files that evaluation harnesses read, made from its weights file.
 * It must give the ids that the service gives.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readGgufMetadata } from '../../plugins/gguf.js';
import { smallModelPath } from '../support/weights.js';

/** @returns the folder, by which it is named. */
export async function writeSmallModelTokenizer(folder: string): Promise<string> {
  const metadata = (await readGgufMetadata(smallModelPath)) as Readonly<Record<string, unknown>>;
  const tokens = metadata['tokenizer.ggml.tokens'] as readonly string[];
  const kinds = metadata['tokenizer.ggml.token_type'] as readonly number[];
  const merges = metadata['tokenizer.ggml.merges'] as readonly string[];
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const added = tokens.flatMap((content, id) =>
    kinds[id] === CONTROL ? [{ id, content, special: true, ...flags }] : [],
  );
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true };
  const digits = { type: 'Digits', individual_digits: true };
  mkdirSync(folder, { recursive: true });
  const save = (name: string, value: object) =>
    writeFileSync(join(folder, name), JSON.stringify(value));
  save('tokenizer.json', {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [digits, { ...byteLevel, use_regex: true }],
    },
    post_processor: null,
    decoder: { ...byteLevel, use_regex: true },
    model: { type: 'BPE', vocab: Object.fromEntries(tokens.map((text, id) => [text, id])), merges },
  });
  save('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast',
    model_max_length: 8_192,
    eos_token: '<|im_end|>',
  });
  // Without one the folder is not taken for a tokenizer's.
  save('config.json', {});
  return folder;
}

/** The type of special tokens in such files. */
const CONTROL = 3;
